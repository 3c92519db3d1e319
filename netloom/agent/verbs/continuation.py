"""Steps that go on wherever the answer they waited for is: on the journal's thread, on the dataplane's.

An operation goes from thread to thread. Coming back to the event loop after each of them would cost two of
the loop's rounds every time, a tenth of an ADD. So it is written as a generator that yields what it waits
for, reads from top to bottom, and is run by whoever has the answer; the loop hears of its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
# Yields what it waits for, is sent the answer, and may do nothing that takes long in between.
Steps: TypeAlias = Generator[Future[Any], Any, T]


async def run_continuation(steps: Steps[T]) -> T:
    """Runs the steps to their end, also if nobody waits for it any more."""
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
            _tell(loop, settle, over.value, None)
        except BaseException as failure:
            _tell(loop, settle, None, failure)
        else:
            following.add_done_callback(advance)

    advance(None)
    return await end


def _tell(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *outcome: object) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nobody waits
        loop.call_soon_threadsafe(settle, *outcome)
