"""The runtime side of CNI for plain code; `netloom.cni.aio` is the same for asyncio.

`Delegate` is for a plugin that runs another one, as interface plugins do with their IPAM plugin.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from .cache import DEFAULT_CACHE_DIR, Cache, CachedAttachment
from .config import NetworkConfig
from .errors import CNIError
from .exec import Invoker, PluginInfo
from .io import IO, Blocking, drive
from .operations import Network, Operations, ValidAttachment
from .request import Endpoint
from .result import AnyResult

# For a whole operation. Kubernetes gives a runtime two minutes for one request.
DEFAULT_TIMEOUT = 120.0


class Runtime:
    """Attaches containers to networks by running CNI plugins.

    `plugin_dirs` are searched in order. `timeout` is for each whole operation, in seconds (None: no limit);
    each verb can override it. What plugins print on stderr is written to `stderr`, by default the process's
    own; `warn` receives warnings.

    Where a verb takes a network, it takes a list (`NetworkConfig`) or a single plugin (`PluginConfig`).
    """

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
        self._operations = compose(Blocking(), plugin_dirs, cache_dir, stderr, warn)

    def add(
        self, network: Network, endpoint: Endpoint, *, timeout: float | None = None, cleanup: bool = False
    ) -> AnyResult:
        """Attaches. With `cleanup`, a failed ADD is undone at once by a DEL of the whole list."""
        return drive(
            self._operations.add(network, endpoint, deadline=self._deadline(timeout), cleanup=cleanup)
        )

    def check(self, network: Network, endpoint: Endpoint, *, timeout: float | None = None) -> None:
        """Asks the plugins whether the attachment still is as its ADD left it."""
        drive(self._operations.check(network, endpoint, deadline=self._deadline(timeout)))

    def delete(self, network: Network, endpoint: Endpoint, *, timeout: float | None = None) -> None:
        """Detaches. May be repeated, and needs neither the namespace nor a readable cache."""
        drive(self._operations.delete(network, endpoint, deadline=self._deadline(timeout)))

    def gc(
        self,
        network: NetworkConfig,
        valid: Iterable[ValidAttachment] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Deletes what belongs to no valid attachment. None: there is no list, and everything cached is
        deleted.
        """
        drive(self._operations.gc(network, valid, deadline=self._deadline(timeout)))

    def status(self, network: NetworkConfig, *, timeout: float | None = None) -> None:
        """Returns if ADD would work; otherwise raises the plugin's error (codes 50 and 51)."""
        drive(self._operations.status(network, deadline=self._deadline(timeout)))

    def validate(self, network: Network, *, timeout: float | None = None) -> list[str]:
        """Returns the network's capabilities, if its plugins exist and speak its version."""
        return drive(self._operations.validate(network, deadline=self._deadline(timeout)))

    def version(self, plugin: str, *, timeout: float | None = None) -> PluginInfo:
        """Returns the versions that a plugin reports."""
        return drive(self._operations.version(plugin, deadline=self._deadline(timeout)))

    def cached_result(self, network: Network, endpoint: Endpoint) -> AnyResult | None:
        """Returns the result of ADD in the network's version; None if nothing is cached."""
        return drive(self._operations.cached_result(network, endpoint))

    def cached_config(self, network: Network, endpoint: Endpoint) -> CachedAttachment | None:
        """Returns the configuration and arguments that ADD was given; None if nothing is cached."""
        return drive(self._operations.cached_config(network, endpoint))

    def attachments(self, container_id: str = "") -> list[CachedAttachment]:
        """Returns every cached attachment, or those of one container."""
        return drive(self._operations.attachments(container_id))

    def _deadline(self, timeout: float | None) -> float:
        return deadline(self._timeout if timeout is None else timeout)


def deadline(timeout: float | None) -> float:
    """Returns a time of the monotonic clock; without a limit, infinity."""
    if timeout is not None and timeout != timeout:
        raise ValueError("a timeout must be a number")
    return float("inf") if timeout is None else time.monotonic() + timeout


def compose(
    io: IO,
    plugin_dirs: Sequence[str],
    cache_dir: str,
    stderr: Callable[[bytes], object] | None,
    warn: Callable[[str], object] | None,
) -> Operations:
    for path in (cache_dir, *plugin_dirs):
        if b"\0" in os.fsencode(path):  # which also refuses what cannot be a file name
            raise ValueError(f"{path!a} cannot be a directory")
    write = stderr or to_own_stderr
    return Operations(
        io=io,
        invoker=Invoker(io, tuple(plugin_dirs), write),
        cache=Cache(cache_dir),
        warn=warn or (lambda text: write(f"netloom: {text}\n".encode())),
    )


def to_own_stderr(data: bytes) -> None:
    if sys.stderr is None:
        return  # descriptor 2 was closed at the start: it may be another file now
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        pass  # stderr has no reader; a plugin's output there must not fail an operation


class Delegate(Struct, frozen=True):
    """Runs another plugin with the whole configuration and environment of the calling plugin."""

    plugin: str
    config: bytes
    cni_version: str
    environ: Mapping[str, str]
    timeout: float | None = DEFAULT_TIMEOUT

    def add(self) -> AnyResult:
        return drive(
            self._invoker.execute_for_result(
                self.plugin, self.config, self._env("ADD"), self.cni_version, deadline(self.timeout)
            )
        )

    def check(self) -> None:
        self._send("CHECK")

    def delete(self) -> None:
        self._send("DEL")

    def gc(self) -> None:
        self._send("GC")

    def status(self) -> None:
        self._send("STATUS")

    @contextmanager
    def added(self) -> Iterator[AnyResult]:
        """Runs ADD for a block; if the block fails, runs DEL, as the specification asks of a delegating
        plugin.
        """
        try:
            yield self.add()
        except BaseException:
            with suppress(CNIError):
                self.delete()
            raise

    def _send(self, verb: str) -> None:
        drive(self._invoker.execute(self.plugin, self.config, self._env(verb), deadline(self.timeout)))

    def _env(self, verb: str) -> dict[str, str]:
        return {**self.environ, "CNI_COMMAND": verb}

    @property
    def _invoker(self) -> Invoker:
        path = self.environ.get("CNI_PATH", "")
        directories = tuple(path.split(os.pathsep)) if path else ()
        # In our own process group: a runtime that kills this plugin kills the delegate with it.
        return Invoker(Blocking(own_group=False), directories, to_own_stderr)
