"""Awaiting a future of another thread."""

from __future__ import annotations

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
