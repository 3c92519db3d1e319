"""A lock for each attachment, and calls that concurrent callers share, for the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from ..cni import AttachmentKey


class KeyedLock:
    def __init__(self) -> None:
        self._waiting: dict[AttachmentKey, deque[asyncio.Future[None]]] = {}

    def is_busy(self, key: AttachmentKey) -> bool:
        return key in self._waiting

    def of(self, key: AttachmentKey) -> _Hold:
        """Use as `async with lock.of(key):`. Waiting callers get the lock in their order."""
        return _Hold(self, key)

    async def acquire(self, key: AttachmentKey) -> None:
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(key)
            raise

    def release(self, key: AttachmentKey) -> None:
        queue = self._waiting[key]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]


class _Hold:
    def __init__(self, lock: KeyedLock, key: AttachmentKey) -> None:
        self._lock = lock
        self._key = key

    async def __aenter__(self) -> None:
        await self._lock.acquire(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._lock.release(self._key)


T = TypeVar("T")


class SingleFlight(Generic[T]):
    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    async def __call__(self, patience: float | None = None) -> T:
        """Joins the call in progress, or starts one. After `patience` seconds it raises `TimeoutError`.

        The call continues then, and the next caller joins it.
        """
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
            # All callers may have stopped waiting when it fails.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        async with asyncio.timeout(patience):
            return await asyncio.shield(self._task)

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
