"""One implementation for plain code and for asyncio.

The library's logic is written once, as coroutines over the few operations that wait (`IO`). `Blocking` waits
in place, so that its coroutines never suspend and `drive` finishes them in one step, without importing an
event loop. The asyncio form is in `aio`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import ParamSpec, Protocol, TypeVar

from . import process
from .errors import DeadlineExceeded

T = TypeVar("T")
P = ParamSpec("P")


class IO(Protocol):
    async def run(self, path: str, stdin: bytes, env: Mapping[str, str], deadline: float) -> process.Output:
        """Runs a plugin until it ends or the deadline passes. Cancelling also kills the plugin."""

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function that may wait for a disk.

        It may be cancelled after the function did its work: whatever the function acquires must belong to an
        object that releases it, not to the return value.
        """

    async def sleep(self, seconds: float, deadline: float) -> None:
        """Waits, but raises at once if that would pass the deadline."""


class Blocking:
    """`own_group`: see `process.PluginProcess`."""

    def __init__(self, *, own_group: bool = True) -> None:
        self._own_group = own_group

    async def run(self, path: str, stdin: bytes, env: Mapping[str, str], deadline: float) -> process.Output:
        return process.run(path, stdin, env, deadline, own_group=self._own_group)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    async def sleep(self, seconds: float, deadline: float) -> None:
        require_time(seconds, deadline)
        time.sleep(seconds)


def require_time(seconds: float, deadline: float) -> None:
    if time.monotonic() + seconds > deadline:
        raise DeadlineExceeded("the time limit of the operation passed")


def drive(coroutine: Coroutine[object, None, T]) -> T:
    """Finishes a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a coroutine over blocking operations suspended")
