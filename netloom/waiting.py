"""Waits that layers share: for another thread's future, and for a lock on a file or directory."""

from __future__ import annotations

import fcntl
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any


async def until_done(answer: Future[Any]) -> None:
    """Waits until the future is done without blocking the event loop. It never cancels the future."""
    import asyncio

    loop = asyncio.get_running_loop()
    answered: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        if not answered.done():
            answered.set_result(None)

    def wake(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits
            loop.call_soon_threadsafe(ring)

    answer.add_done_callback(wake)
    await answered


# Between two attempts to lock.
_PAUSE = 0.02


def lock_exclusively(descriptor: int, timeout: float) -> None:
    """Locks an open file or directory until it is closed. Raises `TimeoutError`."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(_PAUSE)
