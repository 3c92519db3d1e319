"""A question whose answer is shared by all who ask while it is being found.

However often somebody asks of a disk or a kernel that hangs, it is asked once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    async def __call__(self, patience: float | None = None) -> T:
        """Raises `TimeoutError` if it takes longer; then it goes on, for whoever asks next."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
            # Who asked may be gone by the time it fails.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        async with asyncio.timeout(patience):
            return await asyncio.shield(self._task)

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
