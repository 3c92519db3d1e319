"""Removes links without waiting for the kernel to be done with them.

A link that is deleted is gone after 0.4 ms: unlisted, at both ends of a veth, its name free. The
kernel says so to everybody (RTM_DELLINK), but acknowledges the request only after an RCU barrier,
15 to 25 ms later. So requests are sent by a few threads that have nothing else to do, and a link
counts as gone when its notification arrives. Links that wait together are put into one group and
deleted by one request, at the price of one barrier.

Three things end the wait for a link, whichever comes first: its notification; a question, asked
whenever notifications were lost (the receive buffer overflowed) or are late; and the
acknowledgement. None of them can be true while the link is there.
"""

from __future__ import annotations

import os
import secrets
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from .errors import ABSENT, KernelError, KernelTimeout, Malformed, OutcomeUnknown, Refused, Stopped
from .namespace import Namespace
from .netlink import link
from .netlink.connection import NetlinkConnection
from .netlink.message import NetlinkMessage
from .objects import LinkDeletion
from .objects.link import GROUP

Done: TypeAlias = Callable[[KernelError | None], None]

_LINK_GROUP = 1  # RTNLGRP_LINK
# One request under RTNL should not keep everybody else waiting for long.
_TOGETHER = 256
# After this long without a notification, ask.
_LATE = 0.1
# Deadlines are looked after in between, however many notifications there are.
_AT_A_TIME = 256


class _Batch:
    """Links that one caller waits for."""

    def __init__(self, links: int, done: Done, deadline: float) -> None:
        self.left = links
        self.done: Done | None = done
        self.deadline = deadline
        self.error: KernelError | None = None


class _Leave:
    """One link on its way out."""

    __slots__ = ("batch", "index", "label", "since")

    def __init__(self, departure: LinkDeletion, batch: _Batch) -> None:
        self.index = departure.index
        self.label = departure.label
        self.batch = batch
        self.since = time.monotonic()


class _Watch:
    """One namespace: who listens there, who is awaited, and connections to send with."""

    def __init__(self, namespace: Namespace, receive_buffer: int | None, connections: int) -> None:
        """With connections opened beforehand, it does its work also when descriptors run out."""
        self.namespace = Namespace.of_descriptor(namespace.fileno(), namespace.name)
        self.awaited: dict[int, list[_Leave]] = {}
        self.busy = 0
        self._idle: list[NetlinkConnection] = []
        try:
            self.listener = self.namespace.connect(
                groups=(_LINK_GROUP,), receive_buffer=receive_buffer, only=(link.DELETE,)
            )
            self._idle += [self.namespace.connect() for _ in range(connections)]
        except BaseException:
            self.close()
            raise

    def take(self) -> NetlinkConnection:
        return self._idle.pop() if self._idle else self.namespace.connect()

    def give(self, connection: NetlinkConnection) -> None:
        self._idle.append(connection)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        if hasattr(self, "listener"):
            self.listener.close()
        self.namespace.close()


class Reaper:
    """`submit` may be called from any thread that may change namespaces; `done` is called from ours."""

    def __init__(self, host: Namespace, *, senders: int = 4, receive_buffer: int | None = None) -> None:
        self._receive_buffer = receive_buffer
        # How often notifications were lost, and links were asked for instead.
        self.losses = 0
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._queue: deque[tuple[_Watch, _Leave]] = deque()
        self._closing = False
        self._host = _Watch(host, receive_buffer, senders + 1)
        self._watches = {self._host.namespace.identity: self._host}
        self._threads: list[threading.Thread] = []
        try:
            self._selector = selectors.DefaultSelector()
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._selector.register(self._wake, selectors.EVENT_READ)
            self._selector.register(self._host.listener, selectors.EVENT_READ, self._host)
            for number in range(senders):
                self._start(self._send, f"netloom-reaper-{number}")
            self._listener = self._start(self._listen, "netloom-reaper")
        except BaseException:
            self.close()
            raise

    def _start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def submit(self, departures: Sequence[LinkDeletion], done: Done, deadline: float) -> None:
        """Removes links. Calls `done` once: when all are gone, or with what kept one of them.

        Raises a `KernelError` if it cannot be begun; then nothing was.
        """
        batch = _Batch(len(departures), done, deadline)
        with self._lock:
            if self._closing:
                raise Stopped("links are no longer removed here")
            watches = [self._watch(departure.namespace) for departure in departures]
            for watch, departure in zip(watches, departures, strict=True):
                leave = _Leave(departure, batch)
                watch.awaited.setdefault(leave.index, []).append(leave)
                self._queue.append((watch, leave))
            self._work.notify(1)
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Sends what waits, and ends. No caller is left waiting."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
        for thread in self._threads:
            if thread is not getattr(self, "_listener", None):
                thread.join()
        if hasattr(self, "_listener"):
            os.eventfd_write(self._wake, 1)
            self._listener.join()
        for watch in self._watches.values():
            watch.close()
        self._watches = {}
        if hasattr(self, "_wake"):
            os.close(self._wake)
        if hasattr(self, "_selector"):
            self._selector.close()

    def _watch(self, namespace: Namespace) -> _Watch:
        """From now on notifications of the namespace arrive. The lock is held."""
        found = self._watches.get(namespace.identity)
        if found is None:
            found = _Watch(namespace, self._receive_buffer, 1)
            try:
                self._selector.register(found.listener, selectors.EVENT_READ, found)
            except BaseException as cause:
                found.close()
                raise _as_kernel_error(cause) from None
            self._watches[namespace.identity] = found
        return found

    # Senders.

    def _send(self) -> None:
        while True:
            with self._lock:
                while not self._queue:
                    if self._closing:
                        return
                    self._work.wait()
                watch, leaves = self._waiting_together()
                watch.busy += 1
                if self._queue:
                    self._work.notify(1)
            try:
                self._reap(watch, leaves)
            except BaseException as error:
                self._settle(watch, leaves, _as_kernel_error(error))
            with self._lock:
                watch.busy -= 1
                over = self._is_over(watch)
            if over:
                os.eventfd_write(self._wake, 1)

    def _waiting_together(self) -> tuple[_Watch, list[_Leave]]:
        watch, first = self._queue.popleft()
        leaves = [first]
        others: list[tuple[_Watch, _Leave]] = []
        while self._queue and len(leaves) < _TOGETHER:
            entry = self._queue.popleft()
            if entry[0] is watch:
                leaves.append(entry[1])
            else:
                others.append(entry)
        self._queue.extendleft(reversed(others))
        return watch, leaves

    def _reap(self, watch: _Watch, leaves: list[_Leave]) -> None:
        with self._connection(watch) as connection:
            refusals = _delete(connection, leaves)
            # Acknowledged: what has not been seen to leave is gone, or stays.
            for leave in leaves:
                if not self._is_awaited(watch, leave):
                    continue
                error: KernelError | None = None
                if connection.has_link(leave.index):
                    error = refusals.get(leave.index) or KernelError(f"{leave.label} is still there")
                self._settle(watch, [leave], error)

    @contextmanager
    def _connection(self, watch: _Watch) -> Iterator[NetlinkConnection]:
        with self._lock:
            connection = watch.take()
        try:
            yield connection
        finally:
            with self._lock:
                watch.give(connection)

    # The listener.

    def _listen(self) -> None:
        while True:
            try:
                for key, _ in self._selector.select(self._pause()):
                    if key.data is None:
                        os.eventfd_read(self._wake)
                    else:
                        self._hear(key.data)
                self._look_after()
                self._retire()
            except Exception:
                # Whatever it was, such as no memory: no caller may be left waiting because of it.
                time.sleep(_LATE)
            with self._lock:
                if self._closing and not any(
                    thread.is_alive() for thread in self._threads if thread is not threading.current_thread()
                ):
                    return

    def _pause(self) -> float | None:
        with self._lock:
            return _LATE if any(watch.awaited for watch in self._watches.values()) else None

    def _hear(self, watch: _Watch) -> None:
        lost = False
        for _ in range(_AT_A_TIME):
            try:
                notifications = watch.listener.notifications()
            except (OutcomeUnknown, Malformed):
                # The socket stays deaf until it was read empty; only then is asking enough.
                lost = True
                continue
            if not notifications:
                break
            for message in notifications:
                self._take_note(watch, message)
        if lost:
            self.losses += 1
            self._ask(watch, older_than=0)

    def _take_note(self, watch: _Watch, message: NetlinkMessage) -> None:
        index = link.departed(message.kind, message.payload)
        # An index may be in use again: then it was another link's departure, long ago.
        if index is None or index not in watch.awaited or watch.listener.has_link(index):
            return
        leaves = list(watch.awaited.get(index, ()))
        moved = link.was_moved(message.payload)
        for leave in leaves:
            error = KernelError(f"{leave.label} was moved to another namespace meanwhile") if moved else None
            self._settle(watch, [leave], error)

    def _look_after(self) -> None:
        """Asks for links whose notifications are late, and lets no caller wait beyond a deadline."""
        now = time.monotonic()
        with self._lock:
            watches = [watch for watch in self._watches.values() if watch.awaited]
        for watch in watches:
            self._ask(watch, older_than=_LATE)
            for leave in self._awaited_in(watch):
                if leave.batch.deadline <= now:
                    self._answer(leave.batch, KernelTimeout(f"{leave.label} was not gone in time"))

    def _ask(self, watch: _Watch, *, older_than: float) -> None:
        before = time.monotonic() - older_than
        for leave in self._awaited_in(watch):
            if leave.since <= before and not watch.listener.has_link(leave.index):
                self._settle(watch, [leave], None)

    def _is_over(self, watch: _Watch) -> bool:
        """Whether nothing is left to do in a namespace. The lock is held."""
        return not (watch is self._host or watch.awaited or watch.busy)

    def _retire(self) -> None:
        """Lets go of namespaces where nothing is left to do. Only the listener may: it reads from them."""
        with self._lock:
            for watch in [watch for watch in self._watches.values() if self._is_over(watch)]:
                del self._watches[watch.namespace.identity]
                self._selector.unregister(watch.listener)
                watch.close()

    # Shared.

    def _awaited_in(self, watch: _Watch) -> list[_Leave]:
        with self._lock:
            return [leave for leaves in watch.awaited.values() for leave in leaves]

    def _is_awaited(self, watch: _Watch, leave: _Leave) -> bool:
        with self._lock:
            return leave in watch.awaited.get(leave.index, ())

    def _settle(self, watch: _Watch, leaves: Sequence[_Leave], error: KernelError | None) -> None:
        """These are waited for no longer."""
        ended: list[_Batch] = []
        with self._lock:
            for leave in leaves:
                waiting = watch.awaited.get(leave.index, [])
                if leave not in waiting:
                    continue
                waiting.remove(leave)
                if not waiting:
                    del watch.awaited[leave.index]
                batch = leave.batch
                batch.error = batch.error or error
                batch.left -= 1
                if batch.left == 0:
                    ended.append(batch)
        for batch in ended:
            self._answer(batch, batch.error)

    def _answer(self, batch: _Batch, error: KernelError | None) -> None:
        with self._lock:
            done, batch.done = batch.done, None
        if done is not None:
            done(error)


def _delete(connection: NetlinkConnection, leaves: list[_Leave]) -> dict[int, KernelError]:
    """Sends the requests; what the kernel refused, by index."""
    alone = leaves
    if len(leaves) > 1:
        group = _free_group()
        together = [leave for leave in leaves if _joins(connection, leave, group)]
        alone = [leave for leave in leaves if leave not in together]
        try:
            if together:
                connection.change(link.DELETE, 0, link.delete_group(group))
        except KernelError:
            alone = leaves  # one of them cannot be deleted, and so the kernel deleted none
    refusals: dict[int, KernelError] = {}
    for leave in alone:
        try:
            connection.change(link.DELETE, 0, link.by_index(leave.index))
        except Refused as refused:
            if refused.errno not in ABSENT:
                refusals[leave.index] = refused.during(f"cannot remove {leave.label}")
                _joins(connection, leave, GROUP)
        except KernelError as error:
            refusals[leave.index] = error
    return refusals


def _free_group() -> int:
    """A group for links that go: the kernel deletes all that is in it.

    Of our own range, so that a link is still known for ours if we do not get to delete it. What else
    may be in the group is one of those.
    """
    return GROUP | (secrets.randbelow(0xFFFF) + 1)


def _joins(connection: NetlinkConnection, leave: _Leave, group: int) -> bool:
    try:
        connection.change(link.SET, 0, link.change(leave.index, link.properties(group=group)))
    except KernelError:
        return False
    return True


def _as_kernel_error(error: BaseException) -> KernelError:
    if isinstance(error, KernelError):
        return error
    return KernelError(f"links could not be removed: {error!r}", errno=getattr(error, "errno", 0) or 0)
