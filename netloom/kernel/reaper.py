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
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .errors import ABSENT, DeadlineExceeded, KernelError, Malformed, OutcomeUnknown, Refused, Stopped
from .namespace import Namespace
from .netlink import link
from .netlink.connection import Connection
from .objects import Departure
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

    def __init__(self, departure: Departure, batch: _Batch) -> None:
        self.index = departure.index
        self.label = departure.label
        self.batch = batch
        self.since = time.monotonic()


class _Watch:
    """One namespace: who listens there, who is awaited, and connections to send with."""

    def __init__(self, namespace: Namespace, receive_buffer: int | None, *, permanent: bool) -> None:
        self.namespace = Namespace.of_descriptor(namespace.fileno(), namespace.name)
        self.permanent = permanent
        self.awaited: dict[int, list[_Leave]] = {}
        self.busy = 0
        self._idle: list[Connection] = []
        try:
            self.listener = self.namespace.connect(groups=(_LINK_GROUP,), receive_buffer=receive_buffer)
        except BaseException:
            self.namespace.close()
            raise

    @property
    def over(self) -> bool:
        """Whether nothing is left to do here."""
        return not (self.permanent or self.awaited or self.busy)

    def take(self) -> Connection:
        return self._idle.pop() if self._idle else self.namespace.connect()

    def give(self, connection: Connection) -> None:
        self._idle.append(connection)

    def close(self) -> None:
        for connection in (self.listener, *self._idle):
            connection.close()
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
        self._watches: dict[tuple[int, int], _Watch] = {}
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._watch(host, permanent=True)
        names = [f"netloom-reaper-{number}" for number in range(senders)]
        self._threads = [threading.Thread(target=self._send, name=name, daemon=True) for name in names]
        self._threads.append(threading.Thread(target=self._listen, name="netloom-reaper", daemon=True))
        for thread in self._threads:
            thread.start()

    def submit(self, departures: Sequence[Departure], done: Done, deadline: float) -> None:
        """Removes links. Calls `done` once: when all are gone, or with what kept one of them."""
        batch = _Batch(len(departures), done, deadline)
        with self._lock:
            if self._closing:
                raise Stopped("links are no longer removed here")
            for departure in departures:
                watch = self._watch(departure.namespace)
                leave = _Leave(departure, batch)
                watch.awaited.setdefault(leave.index, []).append(leave)
                self._queue.append((watch, leave))
            self._work.notify(1)
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Sends what waits, and ends. Nobody is left waiting."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
        for thread in self._threads[:-1]:
            thread.join()
        os.eventfd_write(self._wake, 1)
        self._threads[-1].join()
        for watch in list(self._watches.values()):
            self._selector.unregister(watch.listener)
            watch.close()
        self._watches.clear()
        self._selector.close()
        os.close(self._wake)

    def _watch(self, namespace: Namespace, *, permanent: bool = False) -> _Watch:
        """From now on notifications of the namespace arrive. The lock is held."""
        found = self._watches.get(namespace.identity)
        if found is None:
            found = _Watch(namespace, self._receive_buffer, permanent=permanent)
            self._watches[namespace.identity] = found
            self._selector.register(found.listener, selectors.EVENT_READ, found)
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
            finally:
                with self._lock:
                    watch.busy -= 1
                    over = watch.over
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
        try:
            connection = self._connection(watch)
        except (KernelError, OSError) as error:
            self._settle(watch, leaves, _as_kernel_error(error))
            return
        try:
            refused = self._delete(connection, leaves)
            # Acknowledged: what has not been seen to leave is gone by now, or stays.
            for leave in leaves:
                if self._is_awaited(watch, leave):
                    stays = _still_there(connection, leave)
                    reason = refused or KernelError(f"cannot remove {leave.label}: it is still there")
                    self._settle(watch, [leave], reason if stays else None)
        except (KernelError, OSError) as error:
            self._settle(watch, leaves, _as_kernel_error(error))
        finally:
            with self._lock:
                watch.give(connection)

    def _connection(self, watch: _Watch) -> Connection:
        with self._lock:
            return watch.take()

    def _delete(self, connection: Connection, leaves: list[_Leave]) -> KernelError | None:
        if len(leaves) > 1:
            group = _free_group()
            members = [leave for leave in leaves if _joins(connection, leave, group)]
            try:
                if members:
                    connection.change(link.DELETE, 0, link.delete_group(group))
                return None
            except Refused:
                pass  # one of them cannot be deleted, and so the kernel deleted none
        error: KernelError | None = None
        for leave in leaves:
            try:
                connection.change(link.DELETE, 0, link.by_index(leave.index))
            except Refused as refused:
                if refused.errno not in ABSENT:
                    error = refused.during(f"cannot remove {leave.label}")
        return error

    # The listener.

    def _listen(self) -> None:
        while True:
            for key, _ in self._selector.select(self._pause()):
                if key.data is None:
                    os.eventfd_read(self._wake)
                else:
                    self._hear(key.data)
            self._look_after()
            self._retire()
            with self._lock:
                if self._closing and not any(thread.is_alive() for thread in self._threads[:-1]):
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
                index = link.departed(message.kind, message.payload)
                if index is not None and index in watch.awaited:
                    self._settle(watch, list(watch.awaited.get(index, ())), None)
        if lost:
            self.losses += 1
            self._ask(watch, older_than=0)

    def _look_after(self) -> None:
        """Asks for links whose notifications are late, and lets nobody wait beyond a deadline."""
        now = time.monotonic()
        with self._lock:
            watches = [watch for watch in self._watches.values() if watch.awaited]
        for watch in watches:
            self._ask(watch, older_than=_LATE)
            for leave in self._awaited_in(watch):
                if leave.batch.deadline <= now:
                    self._answer(leave.batch, DeadlineExceeded(f"{leave.label} was not gone in time"))

    def _ask(self, watch: _Watch, *, older_than: float) -> None:
        before = time.monotonic() - older_than
        leaves = [leave for leave in self._awaited_in(watch) if leave.since <= before]
        if not leaves:
            return
        try:
            connection = self._connection(watch)
        except (KernelError, OSError):
            return  # out of descriptors: there will be a next time, and there are acknowledgements
        try:
            for leave in leaves:
                if not _still_there(connection, leave):
                    self._settle(watch, [leave], None)
        finally:
            with self._lock:
                watch.give(connection)

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

    def _retire(self) -> None:
        """Lets go of namespaces where nothing is left to do. Only the listener may: it reads from them."""
        with self._lock:
            for watch in [watch for watch in self._watches.values() if watch.over]:
                del self._watches[watch.namespace.identity]
                self._selector.unregister(watch.listener)
                watch.close()


def _free_group() -> int:
    """A group for links that go: the kernel deletes all that is in it.

    Of our own range, so that a link is still known for ours if we do not get to delete it. What else
    may be in the group is one of those.
    """
    return GROUP | (secrets.randbelow(0xFFFF) + 1)


def _joins(connection: Connection, leave: _Leave, group: int) -> bool:
    try:
        connection.change(link.SET, 0, link.change(leave.index, link.properties(group=group)))
    except Refused as refused:
        if refused.errno in ABSENT:
            return False
        raise
    return True


def _still_there(connection: Connection, leave: _Leave) -> bool:
    try:
        connection.ask(link.GET, link.get(leave.index))
    except Refused as refused:
        return refused.errno not in ABSENT
    return True


def _as_kernel_error(error: KernelError | OSError) -> KernelError:
    return error if isinstance(error, KernelError) else KernelError(str(error), errno=error.errno or 0)
