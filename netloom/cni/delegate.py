"""Delegation: a plugin that runs another one, as interface plugins do with their IPAM plugin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from msgspec import Struct

from .errors import CNIError
from .exec import Invoker
from .io import Blocking, drive
from .result import AnyResult
from .runtime import DEFAULT_TIMEOUT, deadline, to_own_stderr


class Delegate(Struct, frozen=True):
    """Another plugin, with the whole configuration and the environment of the one that asks."""

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
        """ADD for a block; if the block fails, DEL, as the specification asks of a delegating plugin."""
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
        # In our own process group: a runtime that kills us is to end the delegate, too.
        return Invoker(Blocking(own_group=False), directories, to_own_stderr)
