"""Continuations: steps that continue on the thread that has the result, the journal's or the dataplane's.

Returning to the event loop after each step would cost two rounds of the loop, a tenth of an ADD. So an
operation is a generator that yields the futures it waits for. The thread that completes a future runs the
next step; the loop gets the final result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
# Yields futures and is sent their results. It must not block in between.
Steps: TypeAlias = Generator[Future[Any], Any, T]


async def run_continuation(steps: Steps[T]) -> T:
    """Runs the steps to their end, even if the caller is cancelled."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if end.done():
            return
        if error is None:
            end.set_result(value)
        else:
            end.set_exception(error)

    def advance(answered: Future[Any] | None) -> None:
        try:
            if answered is None:
                following = next(steps)
            else:
                try:
                    answer = answered.result(0)
                except BaseException as error:
                    following = steps.throw(error)
                else:
                    following = steps.send(answer)
        except StopIteration as over:
            _notify(loop, settle, over.value, None)
        except BaseException as failure:
            _notify(loop, settle, None, failure)
        else:
            following.add_done_callback(advance)

    advance(None)
    return await end


def _notify(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *outcome: object) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(settle, *outcome)
