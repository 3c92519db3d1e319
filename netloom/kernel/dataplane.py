"""One thread that makes all changes to the kernel for its whole process.

RTNL serialises every change, so more threads would only wait for each other. Requests wait in one bounded
queue, each with a deadline. Adding and removing alternate, so that a flood of one never blocks the other.
Reapers remove links, and the thread continues with other requests until the links are deleted.

An event loop awaits a request, and its thread never touches the kernel. Other threads wait with `result`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Literal, Self, TypeAlias, TypeVar

from ..waiting import until_done
from .errors import Difference, KernelError, KernelTimeout, QueueFull, Stopped
from .namespace import Namespace
from .objects import NftChain, NftElement, NftTable, Scope
from .objects.nft import lay_down
from .plan import AppliedPlan, Change, Impatience, Plan, Repair, Steps, applying, check, removing, repairing
from .reaper import Reaper
from .reset import Reset, reset

T = TypeVar("T")
Lane: TypeAlias = Literal["add", "remove", "resumed"]

DEFAULT_TIMEOUT = 10.0
# Time to roll back a failed request, even after its deadline.
_UNDO_PATIENCE = 10.0


def _none(_: Namespace) -> Iterable[NftChain | NftElement]:
    return ()


# Called on the dataplane's thread, with the host's namespace.
Contents: TypeAlias = Callable[[Namespace], Iterable[NftChain | NftElement]]


class DataplaneRequest(Future[T]):
    """The answer to a request: `await` it, or call its `result`.

    A task that is cancelled while it awaits gives the request up. A request that still waits is never begun.
    A request that was being applied, or just had been, is rolled back.
    """

    _dataplane: Dataplane
    _job: _DataplaneJob
    # The cookie of the attachment's namespace, known once the request was begun.
    netns_cookie = 0

    def give_up(self) -> None:
        self._dataplane._give_up(self._job)

    def result(self, timeout: float | None = None) -> T:
        answer = super().result(timeout)
        self._dataplane._deliver(self._job)
        return answer

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        import asyncio

        try:
            await until_done(self)
        except asyncio.CancelledError:
            self.give_up()
            raise
        return self.result(0)


class _DataplaneJob:
    """A request in progress: `steps` once it was begun, `failure` if a link could not be deleted."""

    def __init__(
        self,
        lane: Lane,
        begin: Callable[[Scope, Impatience], Steps[Any]],
        netns: Namespace | None,
        deadline: float,
    ) -> None:
        self.lane = lane
        self.begin = begin
        self.netns = netns
        self.deadline = deadline
        self.request: DataplaneRequest[Any] = DataplaneRequest()
        self.steps: Steps[Any] | None = None
        self.failure: KernelError | None = None
        self.given_up = False
        # What was created, until the caller has received the answer.
        self.applied: AppliedPlan | None = None

    def impatience(self) -> str:
        if self.given_up:
            return "the caller gave it up"
        return "its deadline passed" if time.monotonic() >= self.deadline else ""


class Dataplane:
    """Owns the thread, the reapers, and the connections into the host's namespace."""

    def __init__(
        self,
        host: Namespace | None = None,
        *,
        limit: int = 1024,
        reapers: int = 16,
        receive_buffer: int | None = None,
    ) -> None:
        """`limit` bounds the requests of each lane that may be in progress.

        Every request with a namespace holds a descriptor until its result is taken. A reaper waits 16 ms for
        the kernel, and removals come every 1.5 ms when many attachments are deleted.
        """
        self.limit = limit
        # How many requests the thread has ended, not counting deadlines: while it grows, the thread works.
        self.ended = 0
        self._lanes: dict[Lane, deque[_DataplaneJob]] = {
            "resumed": deque(),
            "add": deque(),
            "remove": deque(),
        }
        self._turns: deque[Lane] = deque(self._lanes)
        self._accepted: dict[Lane, int] = {"add": 0, "remove": 0}
        # The code enters the lock itself, never the conditions, so that no signal can leave it locked.
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._sooner = threading.Condition(self._lock)
        self._nearest = float("inf")
        self._closing = False
        self._ended = threading.Event()
        self._process = os.getpid()
        with Namespace.own() if host is None else _own_copy(host) as own:
            self._host = Namespace.of_descriptor(own.fileno(), own.name)
        self._begin(reapers, receive_buffer)

    def _begin(self, reapers: int, receive_buffer: int | None) -> None:
        """Opens namespaces and connections on the thread that will use them: the caller's may run an event
        loop.
        """
        opened: Future[Reaper] = Future()

        def run() -> None:
            try:
                opened.set_result(Reaper(self._host, senders=reapers, receive_buffer=receive_buffer))
            except BaseException as error:
                opened.set_exception(error)
                return
            self._run()

        try:
            self._thread = threading.Thread(target=run, name="netloom-dataplane", daemon=True)
            self._thread.start()
            self._reaper = opened.result()
            self._clock = threading.Thread(
                target=self._watch_deadlines, name="netloom-deadlines", daemon=True
            )
            self._clock.start()
        except BaseException:
            with self._lock:
                self._closing = True
                self._ready.notify()
            if opened.done() and not opened.exception():
                self._thread.join()
                opened.result().close()
            self._host.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def apply(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[list[Change]]:
        """Applies a plan. The caller may close `netns`, the attachment's namespace, when this returns."""
        return self._accept("add", lambda scope, why: applying(plan, scope, why), netns, timeout)

    def check(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[list[Difference]]:
        return self._accept("add", lambda scope, _: _at_once(lambda: check(plan, scope)), netns, timeout)

    def repair(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[Repair]:
        """Puts back what is missing. If the caller gives it up, it is rolled back like an `apply`."""
        return self._accept("add", lambda scope, why: repairing(plan, scope, why), netns, timeout)

    def reset(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[Reset]:
        """Corrects objects that exist but differ from the plan. It is not rolled back."""
        return self._accept("add", lambda scope, _: _at_once(lambda: reset(plan, scope)), netns, timeout)

    def remove(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[None]:
        """Removes a plan. Without a namespace, the objects in it count as deleted with it."""
        return self._accept("remove", lambda scope, _: removing(plan, scope), netns, timeout)

    def remove_found(
        self, find: Callable[[Namespace], Plan], *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[None]:
        """Removes what `find` returns when the request runs; nothing else is changed in between."""

        def begin(scope: Scope, _: Impatience) -> Steps[None]:
            return removing(find(scope.host), scope)

        return self._accept("remove", begin, None, timeout)

    def lay_down(
        self, table: NftTable, contents: Contents = _none, *, timeout: float = DEFAULT_TIMEOUT
    ) -> DataplaneRequest[None]:
        """Installs the host's table with its contents, in place of an earlier table of ours. It is not rolled
        back.

        The contents are asked for when the request runs: they then include all that was applied before, and
        what is applied later finds the table.
        """

        def begin(scope: Scope, _: Impatience) -> Steps[None]:
            host = scope.at(table.on)
            return _at_once(lambda: lay_down(host, table, contents(host)))

        return self._accept("add", begin, None, timeout)

    def netfilter_port(self) -> DataplaneRequest[int]:
        """The port of the connection that changes elements, so that a watcher of the rules can ignore its
        changes.
        """
        return self._accept(
            "add", lambda scope, _: _at_once(lambda: scope.host.netfilter.port), None, DEFAULT_TIMEOUT
        )

    @property
    def under_way(self) -> int:
        """Returns how many requests wait or run."""
        return sum(self._accepted.values())

    @property
    def lanes(self) -> dict[Lane, int]:
        """Returns how many requests wait or run, by lane; each lane may have up to `limit`."""
        return dict(self._accepted)

    @property
    def losses(self) -> int:
        """Returns how often the kernel dropped notifications because netloom read them too slowly."""
        return self._reaper.losses

    def close(self) -> None:
        """Accepts no more requests, finishes the accepted ones, and ends its threads.

        A second call waits for the first. A call from a request's own callback only starts the end.
        """
        if os.getpid() != self._process:
            return  # in a forked process: the threads belong to its parent
        with self._lock:
            first, self._closing = not self._closing, True
            self._ready.notify()
            self._sooner.notify()
        if not first and threading.current_thread() is not self._thread:
            self._ended.wait()
        elif first:
            ending = threading.Thread(target=self._end, name="netloom-end", daemon=True)
            ending.start()
            if threading.current_thread() is not self._thread:
                self._ended.wait()

    def _end(self) -> None:
        self._thread.join()
        self._clock.join()
        self._reaper.close()
        self._host.close()
        self._ended.set()

    def _accept(
        self,
        lane: Lane,
        begin: Callable[[Scope, Impatience], Steps[Any]],
        netns: int | Namespace | None,
        timeout: float,
    ) -> DataplaneRequest[Any]:
        copy = None if netns is None else _own_copy(netns)
        try:
            with self._lock:
                if self._closing or os.getpid() != self._process:
                    raise Stopped("the dataplane has stopped")
                if self._accepted[lane] >= self.limit:
                    raise QueueFull(f"{self.limit} requests to {lane} are in progress; nothing was done")
                job = _DataplaneJob(lane, begin, copy, time.monotonic() + timeout)
                job.request._dataplane, job.request._job = self, job
                self._enqueue(job)
        except BaseException:
            if copy is not None:
                copy.close()
            raise
        return job.request

    def _enqueue(self, job: _DataplaneJob) -> None:
        """The caller holds the lock."""
        self._accepted[job.lane] += 1
        self._lanes[job.lane].append(job)
        self._ready.notify()
        if job.deadline < self._nearest:
            self._sooner.notify()

    # The dataplane's thread.

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._advance(job)
            except BaseException as error:  # for example from a callback that ends the program
                self._finish(job, error)

    def _next(self) -> _DataplaneJob | None:
        with self._lock:
            while True:
                for _ in range(len(self._turns)):
                    lane = self._turns[0]
                    self._turns.rotate(-1)
                    if self._lanes[lane]:
                        return self._lanes[lane].popleft()
                if self._closing and not self.under_way:
                    self._sooner.notify()
                    return None
                self._ready.wait()

    def _advance(self, job: _DataplaneJob) -> None:
        """Continues a request until it is done, or has to wait for links to be deleted."""
        try:
            if job.steps is None:
                if not job.request.set_running_or_notify_cancel():
                    self._finish(job)
                    return
                job.steps = self._begun(job)
            while True:
                failure, job.failure = job.failure, None
                departures = next(job.steps) if failure is None else job.steps.throw(failure)
                try:
                    self._reaper.submit(departures, lambda error: self._resume(job, error), _patience(job))
                    return
                except KernelError as error:
                    job.failure = error
        except StopIteration as end:
            self._succeed(job, end.value)
        except BaseException as error:
            self._finish(job, error)

    def _begun(self, job: _DataplaneJob) -> Steps[Any]:
        why = job.impatience()
        if why:
            raise KernelTimeout(f"the request was still queued when {why}; nothing was done")
        if job.lane == "add" and job.netns is not None:
            job.request.netns_cookie = job.netns.cookie
        return job.begin(Scope(self._host, job.netns), job.impatience)

    def _succeed(self, job: _DataplaneJob, answer: object) -> None:
        """Either this or `_give_up` comes first and decides: the caller gets the answer, or the request is
        rolled back.
        """
        if not isinstance(answer, AppliedPlan):
            gave_up = KernelTimeout("the request was given up after it was done; it is not rolled back")
            self._finish(job, gave_up if job.given_up else None, answer=answer)
            return
        with self._lock:
            given_up = job.given_up
            if not given_up:
                job.applied = answer
        if given_up:
            self._take_back(job, answer)
        else:
            self._finish(job, answer=answer.answer)

    def _take_back(self, job: _DataplaneJob, applied: AppliedPlan) -> None:
        job.steps = applied.undoing()
        self._advance(job)

    def _resume(self, job: _DataplaneJob, failure: KernelError | None) -> None:
        with self._lock:
            job.failure = failure
            self._lanes["resumed"].append(job)
            self._ready.notify()

    def _finish(
        self, job: _DataplaneJob, error: BaseException | None = None, *, answer: object = None
    ) -> None:
        with self._lock:
            self._accepted[job.lane] -= 1
            self.ended += threading.get_ident() == self._thread.ident
            keep = job.applied is not None
        if job.netns is not None:
            job.netns.disconnect() if keep else job.netns.close()
        if job.request.done():
            return
        try:
            if error is None:
                job.request.set_result(answer)
            else:
                job.request.set_exception(error)
        except BaseException:  # a callback's exception must not end this thread
            return

    # Called from any thread.

    def _deliver(self, job: _DataplaneJob) -> None:
        """The caller has its answer and now owns what was created."""
        with self._lock:
            job.applied, applied = None, job.applied
        if applied is not None and job.netns is not None:
            job.netns.close()

    def _give_up(self, job: _DataplaneJob) -> None:
        job.request.cancel()
        with self._lock:
            job.given_up = True
            job.applied, applied = None, job.applied
            if applied is None:
                return
            if not self._closing or self.under_way:
                # It was done before the caller got the answer: a request of our own rolls it back.
                deadline = time.monotonic() + _UNDO_PATIENCE
                undo = _DataplaneJob("remove", lambda *_: applied.undoing(), job.netns, deadline)
                undo.request._dataplane, undo.request._job = self, undo
                self._enqueue(undo)
                return
        if job.netns is not None:
            job.netns.close()

    # The deadline thread.

    def _watch_deadlines(self) -> None:
        """Answers requests that wait too long in time, even while the dataplane's thread is busy."""
        while True:
            with self._lock:
                if self._closing and not self.under_way:
                    return
                queued = [*self._lanes["add"], *self._lanes["remove"]]
                self._nearest = min((job.deadline for job in queued), default=float("inf"))
                left = self._nearest - time.monotonic()
                if left > 0:
                    self._sooner.wait(min(left, 1.0) if self._closing else min(left, 3600.0))
                    continue
                late = [job for job in queued if job.deadline <= time.monotonic()]
                for job in late:
                    self._lanes[job.lane].remove(job)
            for job in late:
                if job.request.set_running_or_notify_cancel():
                    error = KernelTimeout(
                        "the request was still queued when its deadline passed; nothing was done"
                    )
                    self._finish(job, error)
                else:
                    self._finish(job)
            with self._lock:
                self._ready.notify()


def _patience(job: _DataplaneJob) -> float:
    undo = time.monotonic() + _UNDO_PATIENCE
    return job.deadline if job.lane == "remove" and not job.given_up else max(job.deadline, undo)


def _own_copy(netns: int | Namespace) -> Namespace:
    if isinstance(netns, Namespace):
        return Namespace.of_descriptor(netns.fileno(), netns.name)
    return Namespace.of_descriptor(netns, "the attachment's namespace")


def _at_once(answer: Callable[[], T]) -> Steps[T]:
    return answer()
    yield  # a generator, like the steps of other requests
