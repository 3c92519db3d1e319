"""The runtime side of CNI for asyncio: the same operations, none of which blocks the loop.

The event loop itself watches plugins; only the cache's disk access runs in threads. Cancelling an operation
kills the plugin that it waits for, and the processes that the plugin started.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from .cache import DEFAULT_CACHE_DIR, CachedAttachment
from .config import NetworkConfig
from .exec import PluginInfo
from .io import require_time
from .operations import Network, ValidAttachment
from .process import Output, PluginProcess, out_of_time
from .request import Endpoint
from .result import AnyResult
from .runtime import DEFAULT_TIMEOUT, compose, deadline

T = TypeVar("T")
P = ParamSpec("P")

# How long the loop itself may wait for a killed plugin, which takes a millisecond.
_SHORT_WAIT = 0.05


class AsyncRuntime:
    """`netloom.cni.Runtime` with awaitable verbs; see there."""

    def __init__(
        self,
        plugin_dirs: Sequence[str],
        *,
        cache_dir: str = DEFAULT_CACHE_DIR,
        timeout: float | None = DEFAULT_TIMEOUT,
        stderr: Callable[[bytes], object] | None = None,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        self._timeout = timeout
        self._operations = compose(EventLoop(), plugin_dirs, cache_dir, stderr, warn)

    async def add(
        self, network: Network, endpoint: Endpoint, *, timeout: float | None = None, cleanup: bool = False
    ) -> AnyResult:
        limit = self._deadline(timeout)
        return await self._operations.add(network, endpoint, deadline=limit, cleanup=cleanup)

    async def check(self, network: Network, endpoint: Endpoint, *, timeout: float | None = None) -> None:
        await self._operations.check(network, endpoint, deadline=self._deadline(timeout))

    async def delete(self, network: Network, endpoint: Endpoint, *, timeout: float | None = None) -> None:
        await self._operations.delete(network, endpoint, deadline=self._deadline(timeout))

    async def gc(
        self,
        network: NetworkConfig,
        valid: Iterable[ValidAttachment] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        await self._operations.gc(network, valid, deadline=self._deadline(timeout))

    async def status(self, network: NetworkConfig, *, timeout: float | None = None) -> None:
        await self._operations.status(network, deadline=self._deadline(timeout))

    async def validate(self, network: Network, *, timeout: float | None = None) -> list[str]:
        return await self._operations.validate(network, deadline=self._deadline(timeout))

    async def version(self, plugin: str, *, timeout: float | None = None) -> PluginInfo:
        return await self._operations.version(plugin, deadline=self._deadline(timeout))

    async def cached_result(self, network: Network, endpoint: Endpoint) -> AnyResult | None:
        return await self._operations.cached_result(network, endpoint)

    async def cached_config(self, network: Network, endpoint: Endpoint) -> CachedAttachment | None:
        return await self._operations.cached_config(network, endpoint)

    async def attachments(self, container_id: str = "") -> list[CachedAttachment]:
        return await self._operations.attachments(container_id)

    def _deadline(self, timeout: float | None) -> float:
        return deadline(self._timeout if timeout is None else timeout)


class EventLoop:
    """`netloom.cni.io.IO` on the running event loop."""

    async def run(self, path: str, stdin: bytes, env: Mapping[str, str], deadline: float) -> Output:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Output] = loop.create_future()
        process = PluginProcess(path, stdin, env)

        def ready(fd: int, unwatch: Callable[[int], object]) -> None:
            try:
                if process.handle(fd):
                    unwatch(fd)
                if (output := process.output) is not None and not done.done():
                    done.set_result(output)
            except Exception as error:
                unwatch(fd)
                if not done.done():
                    done.set_exception(error)

        readers, writer = process.readers, process.writer
        try:
            for fd in readers:
                loop.add_reader(fd, ready, fd, loop.remove_reader)
            if writer >= 0:
                loop.add_writer(writer, ready, writer, loop.remove_writer)
            async with asyncio.timeout_at(_loop_time(loop, deadline)):
                return await done
        except TimeoutError:
            raise out_of_time(path) from None
        finally:
            process.kill()
            with suppress(NotImplementedError):
                for fd in readers:
                    loop.remove_reader(fd)
                if process.writer >= 0:
                    loop.remove_writer(process.writer)
            try:
                if not process.wait(_SHORT_WAIT):  # it hangs in the kernel; other operations go on
                    await self.call(process.close)
            finally:
                process.close()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        work = asyncio.get_running_loop().run_in_executor(
            None, partial(copy_context().run, partial(function, *args, **kwargs))
        )
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as error:
                # A thread cannot be stopped: what it uses may be released only when it has ended.
                cancelled = cancelled or error
        if cancelled is not None:
            work.exception()  # the cancellation takes precedence
            raise cancelled
        return work.result()

    async def sleep(self, seconds: float, deadline: float) -> None:
        require_time(seconds, deadline)
        await asyncio.sleep(seconds)


def _loop_time(loop: asyncio.AbstractEventLoop, deadline: float) -> float | None:
    return None if deadline == float("inf") else loop.time() + deadline - time.monotonic()
