"""One thread that does all changes to the kernel, for everybody else.

RTNL serialises every change, so more workers would only wait for each other. What is asked waits
in one queue with a bound and a deadline for each request; adding and removing take turns, so that
a flood of one never shuts the other out. Links are removed by reapers, and the thread goes on
with other requests until they are gone.

Requests can be awaited on an event loop, whose thread never touches the kernel, or waited for with
`result` anywhere else.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Literal, Self, TypeAlias, TypeVar

from .difference import Difference
from .errors import DeadlineExceeded, KernelError, QueueFull, Stopped
from .namespace import Namespace
from .objects import Scope
from .plan import Change, Plan, Steps, applying, check, removing
from .reaper import Reaper

T = TypeVar("T")
Lane: TypeAlias = Literal["add", "remove", "resumed"]

DEFAULT_TIMEOUT = 10.0
# What failed is taken back even though its own time is over.
_UNDO_PATIENCE = 10.0


class Request(Future[T]):
    """A request's answer: `await` it, or ask for its `result`.

    A task that is cancelled while it awaits gives the request up: if it waits, it is never begun;
    if it is being applied, what it made is taken back.
    """

    given_up = False

    def give_up(self) -> None:
        self.given_up = True
        self.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        import asyncio

        try:
            return await asyncio.wrap_future(self)
        except asyncio.CancelledError:
            self.give_up()
            raise


class _Job:
    """A request on its way: `steps` once it was begun, `failure` if a link would not go."""

    def __init__(
        self,
        lane: Lane,
        begin: Callable[[Scope, Callable[[], str]], Steps[Any]],
        netns: Namespace | None,
        deadline: float,
    ) -> None:
        self.lane = lane
        self.begin = begin
        self.netns = netns
        self.deadline = deadline
        self.request: Request[Any] = Request()
        self.steps: Steps[Any] | None = None
        self.failure: KernelError | None = None

    def impatience(self) -> str:
        if self.request.given_up:
            return "it was given up"
        return "its time was over" if time.monotonic() >= self.deadline else ""


class Dataplane:
    """Owns the thread, the reapers, and the connections into the host's namespace."""

    def __init__(
        self,
        host: Namespace | None = None,
        *,
        limit: int = 1024,
        reapers: int = 4,
        receive_buffer: int | None = None,
    ) -> None:
        """`limit` bounds how many requests of each lane may be under way at a time."""
        self._limit = limit
        self._lanes: dict[Lane, deque[_Job]] = {"resumed": deque(), "add": deque(), "remove": deque()}
        self._turns: deque[Lane] = deque(self._lanes)
        self._accepted: dict[Lane, int] = {"add": 0, "remove": 0}
        self._ready = threading.Condition()
        self._closing = False
        own = host or Namespace.own()
        self._host = Namespace.of_descriptor(own.fileno(), own.name)
        if host is None:
            own.close()
        self._reaper = Reaper(self._host, senders=reapers, receive_buffer=receive_buffer)
        self._thread = threading.Thread(target=self._run, name="netloom-dataplane", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def apply(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> Request[list[Change]]:
        """`netns` is the attachment's namespace; it may be closed as soon as this returns."""
        return self._accept(
            "add", lambda scope, impatience: applying(plan, scope, impatience), netns, timeout
        )

    def check(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> Request[list[Difference]]:
        return self._accept("add", lambda scope, _: _at_once(lambda: check(plan, scope)), netns, timeout)

    def remove(
        self, plan: Plan, netns: int | Namespace | None = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> Request[None]:
        """Without a namespace, what was in it counts as gone with it."""
        return self._accept("remove", lambda scope, _: removing(plan, scope), netns, timeout)

    @property
    def under_way(self) -> int:
        """How many requests wait or are being worked on."""
        return sum(self._accepted.values())

    @property
    def losses(self) -> int:
        """How often the kernel dropped notifications because we were too slow to read them."""
        return self._reaper.losses

    def close(self) -> None:
        """Takes no more requests, finishes those that it took, and ends its threads."""
        with self._ready:
            if self._closing:
                return
            self._closing = True
            self._ready.notify()
        self._thread.join()
        self._reaper.close()
        self._host.close()

    def _accept(
        self,
        lane: Lane,
        begin: Callable[[Scope, Callable[[], str]], Steps[Any]],
        netns: int | Namespace | None,
        timeout: float,
    ) -> Request[Any]:
        with self._ready:
            if self._closing:
                raise Stopped("the dataplane has stopped")
            if self._accepted[lane] >= self._limit:
                raise QueueFull(f"{self._limit} requests to {lane} are under way; nothing was done")
            job = _Job(lane, begin, _own_copy(netns), time.monotonic() + timeout)
            self._accepted[lane] += 1
            self._lanes[lane].append(job)
            self._ready.notify()
        return job.request

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self._advance(job)

    def _next(self) -> _Job | None:
        with self._ready:
            while True:
                for _ in range(len(self._turns)):
                    lane = self._turns[0]
                    self._turns.rotate(-1)
                    if self._lanes[lane]:
                        return self._lanes[lane].popleft()
                if self._closing and not self.under_way:
                    return None
                self._ready.wait()

    def _advance(self, job: _Job) -> None:
        """Goes on with a request until it is done, or has to wait for links to go."""
        try:
            if job.steps is None:
                job.steps = self._begun(job)
                if job.steps is None:
                    return
            failure, job.failure = job.failure, None
            departures = next(job.steps) if failure is None else job.steps.throw(failure)
            now = time.monotonic()
            deadline = job.deadline if job.lane == "remove" else max(job.deadline, now + _UNDO_PATIENCE)
            self._reaper.submit(departures, lambda error: self._resume(job, error), deadline)
        except StopIteration as end:
            self._finish(job)
            job.request.set_result(end.value)
        except BaseException as error:
            self._finish(job)
            job.request.set_exception(error)

    def _begun(self, job: _Job) -> Steps[Any] | None:
        if not job.request.set_running_or_notify_cancel():
            self._finish(job)
            return None
        why = job.impatience()
        if why:
            raise DeadlineExceeded(f"the request waited in the queue until {why}; nothing was done")
        return job.begin(Scope(self._host, job.netns), job.impatience)

    def _resume(self, job: _Job, failure: KernelError | None) -> None:
        with self._ready:
            job.failure = failure
            self._lanes["resumed"].append(job)
            self._ready.notify()

    def _finish(self, job: _Job) -> None:
        if job.netns is not None:
            job.netns.close()
        with self._ready:
            self._accepted[job.lane] -= 1


def _own_copy(netns: int | Namespace | None) -> Namespace | None:
    if netns is None:
        return None
    if isinstance(netns, Namespace):
        return Namespace.of_descriptor(netns.fileno(), netns.name)
    return Namespace.of_descriptor(netns, "the attachment's namespace")


def _at_once(answer: Callable[[], T]) -> Steps[T]:
    return answer()
    yield  # a generator, as the steps of other requests are
