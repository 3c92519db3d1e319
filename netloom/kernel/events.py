"""What happens to links, addresses, routes and rules, as the kernel tells it.

Events are hints that let a reconciler look at the right place at once. They are never the truth by
themselves: the kernel drops what a slow reader does not take, and says `EventsLost` in its place. Nothing
is stored here beyond the datagram at hand, so a storm costs no memory, only `EventsLost`.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from msgspec import Struct as Record

from .errors import Malformed, OutcomeUnknown
from .namespace import Namespace
from .netlink import address, link, neighbour, nftables, route, rule
from .netlink.connection import NETFILTER, ROUTE, NetlinkConnection
from .netlink.message import NetlinkMessage

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

Kind = Literal["link", "port", "address", "route", "neighbour", "rule", "ruleset"]
Value = (
    link.Link
    | address.AddressRecord
    | route.RouteRecord
    | neighbour.NeighbourRecord
    | rule.RuleRecord
    | nftables.Generation
)


class KernelEvent(Record, frozen=True):
    """Something came or changed, or is gone. `value` is as the kernel last knew it.

    A `port` is a link as a port of a bridge: gone means that it left the bridge.
    """

    kind: Kind
    gone: bool
    value: Value


class EventsLost(Record, frozen=True):
    """The kernel had more to say than fits, or said what we cannot read: look for yourself.

    Whatever happens after this one was given out is told again, or is the next `EventsLost`.
    """


class _Source(NamedTuple):
    groups: tuple[int, ...]
    new: int
    delete: int
    decode: Callable[[bytes], Value]


_SOURCES: dict[Kind, _Source] = {
    "link": _Source((1,), link.NEW, link.DELETE, link.decode),
    "port": _Source((1,), link.NEW, link.DELETE, link.decode),
    "address": _Source((5, 9), address.NEW, address.DELETE, address.decode),
    "route": _Source((7, 11), route.NEW, route.DELETE, route.decode),
    "neighbour": _Source((3,), neighbour.NEW, neighbour.DELETE, neighbour.decode),
    "rule": _Source((8, 19), rule.NEW, rule.DELETE, rule.decode),
    # Each transaction of nftables ends with a new generation of the rules; none is ever said to be gone.
    "ruleset": _Source((7,), nftables.NEW_GENERATION, 0, nftables.decode_generation),
}
_KIND_OF: dict[int, Kind] = {
    number: kind
    for kind, source in _SOURCES.items()
    if kind != "port"
    for number in (source.new, source.delete)
    if number
}

_BUFFER = 1 << 20
# No message takes less of a socket's buffer, and no buffer is made smaller, than this.
_LEAST, SMALLEST = 256, 1 << 12


class Events:
    """One stream of events, for one reader at a time. Anybody may close it, at any moment.

    In a thread, `read`; on an event loop, `next` or `async for`. Opening enters the namespace for a
    moment, which no event loop's thread may do: there, `await Events.open_async(...)`.
    """

    def __init__(self, connection: NetlinkConnection, kinds: Iterable[Kind], most: int) -> None:
        """Takes the connection over. `most` messages are the most that can wait in its buffer."""
        self._connection = connection
        self._kinds = frozenset(kinds)
        self._most = most
        self._waiting: Iterator[NetlinkMessage] = iter(())
        self._lock = threading.Lock()
        self._readers = 0
        self._awaited = False
        self._closed = False
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @classmethod
    def open(
        cls,
        namespace: Namespace,
        groups: Iterable[Kind] = ("link", "address", "route"),
        receive_buffer: int = _BUFFER,
        *,
        gone_only: bool = False,
        ignoring: tuple[int, ...] = (),
    ) -> Self:
        """What happens from now on, of the kinds that `groups` names. The buffer is the kernel's.

        With `gone_only`, the kernel keeps what comes and changes to itself, and wakes no thread for it. A
        `ruleset` comes alone: that of others, without what the connections with the ports `ignoring` do.
        """
        kinds = tuple(groups)
        only = tuple({_SOURCES[kind].delete for kind in kinds}) if gone_only else ()
        protocol = ROUTE
        if "ruleset" in kinds:
            if kinds != ("ruleset",) or gone_only:
                raise ValueError("changes of the ruleset are a stream of their own")
            protocol, only = NETFILTER, (nftables.NEW_GENERATION,)
        numbers = {number for kind in kinds for number in _SOURCES[kind].groups}
        connection = namespace.connect(protocol, tuple(sorted(numbers)), receive_buffer, only, ignoring)
        try:
            # The kernel doubles what it is asked for, to have room for its own.
            return cls(connection, kinds, 2 * max(receive_buffer, SMALLEST) // _LEAST)
        except BaseException:
            connection.close()
            raise

    @classmethod
    async def open_async(
        cls,
        namespace: Namespace,
        groups: Iterable[Kind] = ("link", "address", "route"),
        receive_buffer: int = _BUFFER,
        *,
        gone_only: bool = False,
        ignoring: tuple[int, ...] = (),
    ) -> Self:
        """`open` on a thread of its own. No other thread may use the namespace meanwhile."""
        import asyncio

        return await asyncio.to_thread(
            cls.open, namespace, groups, receive_buffer, gone_only=gone_only, ignoring=ignoring
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_bell"):
            self.close()

    def close(self) -> None:
        """Ends the stream. A reader that waits stops waiting, and takes the descriptors with it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._readers:
                os.eventfd_write(self._bell, 1)
                return
        self._release()

    def read(self, timeout: float | None = None) -> Iterator[KernelEvent | EventsLost]:
        """Events as they come, until the time is over or the stream is closed.

        What waits at that moment is still given out: a timeout of 0 takes what is there. In a storm, it is
        no more than fits the socket.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        spare = self._most
        poll = select.poll()
        with self._in_use() as usable:
            if not usable:
                return
            poll.register(self._connection.fileno(), select.POLLIN)
            poll.register(self._bell, select.POLLIN)
        while True:
            with self._in_use() as usable:
                found = self._take() if usable else None
                if found is None:
                    if not usable or self._closed:
                        return
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return
                    poll.poll(None if left is None else left * 1000)
                    continue
            yield found
            if deadline is not None and time.monotonic() >= deadline:
                spare -= 1
                if not spare:
                    return

    async def next(self) -> KernelEvent | EventsLost | None:
        """The next event; None once the stream is closed. It may be cancelled without loss."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._awaited:
            raise RuntimeError("another task awaits the next event of this stream already")
        self._awaited = True
        try:
            return await self._next(loop)
        finally:
            self._awaited = False

    async def _next(self, loop: AbstractEventLoop) -> KernelEvent | EventsLost | None:
        import asyncio

        # In a storm there is always a next one; everybody else on the loop gets a turn even so.
        await asyncio.sleep(0)
        with self._in_use() as usable:
            while usable and not self._closed:
                found = self._take()
                if found is not None:
                    return found
                rung: Future[None] = loop.create_future()
                descriptors = (self._connection.fileno(), self._bell)
                try:
                    for descriptor in descriptors:
                        loop.add_reader(descriptor, _ring, rung)
                    await rung
                finally:
                    for descriptor in descriptors:
                        loop.remove_reader(descriptor)
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> KernelEvent | EventsLost:
        found = await self.next()
        if found is None:
            raise StopAsyncIteration
        return found

    @contextmanager
    def _in_use(self) -> Iterator[bool]:
        """Keeps the descriptors open in the block: a free number may soon be another file's."""
        with self._lock:
            usable = not self._closed
            self._readers += usable
        try:
            yield usable
        finally:
            with self._lock:
                self._readers -= usable
                last = usable and self._closed and not self._readers
            if last:
                self._release()

    def _release(self) -> None:
        self._connection.close()
        os.close(self._bell)

    def _take(self) -> KernelEvent | EventsLost | None:
        """The next event of those that are there."""
        while True:
            try:
                for message in self._waiting:
                    event = self._event(message)
                    if event is not None:
                        return event
                arrived = self._connection.notifications()
            except (OutcomeUnknown, Malformed):
                self._catch_up()
                return EventsLost()
            if not arrived:
                return None
            self._waiting = iter(arrived)

    def _event(self, message: NetlinkMessage) -> KernelEvent | None:
        kind = _KIND_OF.get(message.kind)
        # A bridge tells of its ports in messages about links; one that leaves it is no link that is gone.
        if kind == "link" and message.payload[:1] == bytes([neighbour.AF_BRIDGE]):
            kind = "port"
        if kind is None or kind not in self._kinds:
            return None
        source = _SOURCES[kind]
        return KernelEvent(kind, message.kind == source.delete, source.decode(message.payload))

    def _catch_up(self) -> None:
        """Empties the socket, before the reader looks for itself.

        A socket that overflowed gets nothing more, and says nothing more, until all that still waits in
        it is taken: what happened between the reader's look and that moment would be lost in silence.
        """
        self._waiting = iter(())
        for _ in range(self._most):
            try:
                if not self._connection.notifications():
                    return
            except (OutcomeUnknown, Malformed):
                continue


def _ring(rung: Future[None]) -> None:
    if not rung.done():
        rung.set_result(None)
