"""Events of links, addresses, routes and rules, as the kernel reports them.

Events are hints that let a reconciler check the right place at once. They are never the only source of truth:
the kernel drops what a slow reader does not take, and reports `EventsLost` instead. Only the current datagram
is stored, so a storm of events costs no memory, only `EventsLost`.
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
    """Something was created, changed or deleted. `value` is the state that the kernel reported.

    A `port` is a link as a port of a bridge; deleted means that it left the bridge.
    """

    kind: Kind
    gone: bool
    value: Value


class EventsLost(Record, frozen=True):
    """The kernel dropped events, or sent unreadable ones: the reader must check the state itself.

    Whatever happens after this event was returned is reported again, or is the next `EventsLost`.
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
    # Each nftables transaction ends with a new generation of the rules; a deletion is never reported.
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
# No message takes less of a socket's buffer than this, and no buffer is smaller.
_LEAST, SMALLEST = 256, 1 << 12


class Events:
    """One stream of events for one reader at a time. Any thread may close it at any time.

    A thread uses `read`; an event loop uses `next` or `async for`. Opening enters the namespace for a moment,
    which an event loop's thread must not do: use `await Events.open_async(...)` there.
    """

    def __init__(self, connection: NetlinkConnection, kinds: Iterable[Kind], most: int) -> None:
        """Takes ownership of the connection. `most` is the largest number of messages in its buffer."""
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
        """Opens a stream of the events that `groups` names, from now on, with this receive buffer in the
        kernel.

        With `gone_only`, the kernel reports only deletions, and wakes no thread for other events. A `ruleset`
        stream cannot be combined with others; it leaves out changes by the connections with the ports
        `ignoring`.
        """
        kinds = tuple(groups)
        only = tuple({_SOURCES[kind].delete for kind in kinds}) if gone_only else ()
        protocol = ROUTE
        if "ruleset" in kinds:
            if kinds != ("ruleset",) or gone_only:
                raise ValueError("ruleset events cannot be combined with other events")
            protocol, only = NETFILTER, (nftables.NEW_GENERATION,)
        numbers = {number for kind in kinds for number in _SOURCES[kind].groups}
        connection = namespace.connect(protocol, tuple(sorted(numbers)), receive_buffer, only, ignoring)
        try:
            # The kernel doubles the requested size to have room for its own data.
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
        """Runs `open` on a new thread. No other thread may use the namespace meanwhile."""
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
        """Ends the stream. A waiting reader stops waiting and closes the descriptors."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._readers:
                os.eventfd_write(self._bell, 1)
                return
        self._release()

    def read(self, timeout: float | None = None) -> Iterator[KernelEvent | EventsLost]:
        """Yields events as they come, until the time is over or the stream is closed.

        Events that wait at that moment are still returned: a timeout of 0 reads what is there. In a storm,
        that is at most what fits the socket.
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
        """Returns the next event; None once the stream is closed. It may be cancelled without loss."""
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

        # In a storm there is always a next event; other tasks of the loop must run all the same.
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
        """Keeps the descriptors open in the block: another file may soon reuse a closed number."""
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
        """Returns the next event that has already arrived."""
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
        # A bridge reports its ports as links; a port that leaves the bridge is not a deleted link.
        if kind == "link" and message.payload[:1] == bytes([neighbour.AF_BRIDGE]):
            kind = "port"
        if kind is None or kind not in self._kinds:
            return None
        source = _SOURCES[kind]
        return KernelEvent(kind, message.kind == source.delete, source.decode(message.payload))

    def _catch_up(self) -> None:
        """Empties the socket before the reader checks the state itself.

        A socket that overflowed receives and reports nothing more until everything in it is read. What
        happened between the reader's check and that moment would be lost silently.
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
