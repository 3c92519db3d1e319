"""Removes links without waiting for the kernel's acknowledgement.

A deleted link disappears after 0.4 ms: unlisted, at both ends of a veth, its name free. The kernel notifies
all listeners (RTM_DELLINK), but acknowledges the request only after an RCU barrier, 15 to 25 ms later. So a
few dedicated threads send the requests, and a link counts as deleted when its notification arrives. Links
that wait together are put into one group and deleted by one request, at the cost of one barrier.

Three things end the wait for a link, whichever comes first: its notification; a query, sent whenever
notifications were lost (the receive buffer overflowed) or are late; and the acknowledgement. None of them can
be true while the link exists.
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
# One request under RTNL must not block other threads for long.
_TOGETHER = 256
# After this long without a notification, query the link.
_LATE = 0.1
# Deadlines are checked in between, however many notifications arrive.
_AT_A_TIME = 256


class _Batch:
    """Links that one caller waits for."""

    def __init__(self, links: int, done: Done, deadline: float) -> None:
        self.left = links
        self.done: Done | None = done
        self.deadline = deadline
        self.error: KernelError | None = None


class _Leave:
    """A link that is being deleted."""

    __slots__ = ("batch", "index", "label", "since")

    def __init__(self, departure: LinkDeletion, batch: _Batch) -> None:
        self.index = departure.index
        self.label = departure.label
        self.batch = batch
        self.since = time.monotonic()


class _Watch:
    """One namespace: its listener, the links waited for, and the connections to send with."""

    def __init__(self, namespace: Namespace, receive_buffer: int | None, connections: int) -> None:
        """Opens its connections in advance, so that it works even when descriptors run out."""
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
    """Any thread that may change namespaces may call `submit`; the reaper's thread calls `done`."""

    def __init__(self, host: Namespace, *, senders: int = 4, receive_buffer: int | None = None) -> None:
        self._receive_buffer = receive_buffer
        # How often notifications were lost and links were queried instead.
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
        """Removes links. Calls `done` once: when all are deleted, or with the error of one of them.

        Raises a `KernelError` if it cannot start; then nothing was done.
        """
        batch = _Batch(len(departures), done, deadline)
        with self._lock:
            if self._closing:
                raise Stopped("the reaper is closed and removes no more links")
            watches = [self._watch(departure.namespace) for departure in departures]
            for watch, departure in zip(watches, departures, strict=True):
                leave = _Leave(departure, batch)
                watch.awaited.setdefault(leave.index, []).append(leave)
                self._queue.append((watch, leave))
            self._work.notify(1)
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Sends what waits, and ends. Every caller gets its answer."""
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
        """Subscribes to notifications of the namespace. The caller holds the lock."""
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

    # Sender threads.

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
            # Acknowledged: a link without a notification is deleted, or stays.
            for leave in leaves:
                if not self._is_awaited(watch, leave):
                    continue
                error: KernelError | None = None
                if connection.has_link(leave.index):
                    error = refusals.get(leave.index) or KernelError(f"{leave.label} still exists")
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

    # The listener thread.

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
                # Any error, such as no memory: every caller must get its answer.
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
                # The socket receives nothing more until it was emptied; only then a query is enough.
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
        # An index may be reused: then the notification was about another link, long ago.
        if index is None or index not in watch.awaited or watch.listener.has_link(index):
            return
        leaves = list(watch.awaited.get(index, ()))
        moved = link.was_moved(message.payload)
        for leave in leaves:
            error = KernelError(f"{leave.label} was meanwhile moved to another namespace") if moved else None
            self._settle(watch, [leave], error)

    def _look_after(self) -> None:
        """Queries links whose notifications are late, and lets no caller wait beyond its deadline."""
        now = time.monotonic()
        with self._lock:
            watches = [watch for watch in self._watches.values() if watch.awaited]
        for watch in watches:
            self._ask(watch, older_than=_LATE)
            for leave in self._awaited_in(watch):
                if leave.batch.deadline <= now:
                    self._answer(leave.batch, KernelTimeout(f"{leave.label} was not deleted in time"))

    def _ask(self, watch: _Watch, *, older_than: float) -> None:
        before = time.monotonic() - older_than
        for leave in self._awaited_in(watch):
            if leave.since <= before and not watch.listener.has_link(leave.index):
                self._settle(watch, [leave], None)

    def _is_over(self, watch: _Watch) -> bool:
        """Says whether nothing is left to do in a namespace. The caller holds the lock."""
        return not (watch is self._host or watch.awaited or watch.busy)

    def _retire(self) -> None:
        """Closes namespaces without further work. Only the listener, which reads from them, may call this."""
        with self._lock:
            for watch in [watch for watch in self._watches.values() if self._is_over(watch)]:
                del self._watches[watch.namespace.identity]
                self._selector.unregister(watch.listener)
                watch.close()

    # Called by all threads.

    def _awaited_in(self, watch: _Watch) -> list[_Leave]:
        with self._lock:
            return [leave for leaves in watch.awaited.values() for leave in leaves]

    def _is_awaited(self, watch: _Watch, leave: _Leave) -> bool:
        with self._lock:
            return leave in watch.awaited.get(leave.index, ())

    def _settle(self, watch: _Watch, leaves: Sequence[_Leave], error: KernelError | None) -> None:
        """Ends the wait for these links."""
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
    """Sends the requests; returns what the kernel refused, by index."""
    alone = leaves
    if len(leaves) > 1:
        group = _free_group()
        together = [leave for leave in leaves if _joins(connection, leave, group)]
        alone = [leave for leave in leaves if leave not in together]
        try:
            if together:
                connection.change(link.DELETE, 0, link.delete_group(group))
        except KernelError:
            alone = leaves  # one of them cannot be deleted, so the kernel deleted none
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
    """Returns an unused group for links to delete: the kernel deletes everything in it.

    The group is in our own range, so that a link is still known as ours if its deletion is interrupted. Any
    other link in the group is such a link.
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
    return KernelError(f"cannot remove links: {error!r}", errno=getattr(error, "errno", 0) or 0)
