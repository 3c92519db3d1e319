"""Those who call plugins: Go's cnitool, our command with the same verbs, our library, and containerd's.

The first three share a face here, so that one test holds for each of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from netloom.cni import CNIError, Endpoint, NetworkConfig, Runtime, parse_network

from ..lanes import PEERS
from .host import PLUGIN_DIRS, Host


class Refused(Exception):
    """What a caller says of a plugin that failed; `code` is None if it does not tell."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


class Caller(Protocol):
    def add(self, network: str, netns: str, **capability_args: Any) -> dict[str, Any]: ...
    def check(self, network: str, netns: str, **capability_args: Any) -> None: ...
    def delete(self, network: str, netns: str, **capability_args: Any) -> None: ...
    def gc(self, network: str) -> None: ...
    def status(self, network: str) -> None: ...


class Cnitool:
    """Go's. It says what a plugin said, but not with which code."""

    words: tuple[str, ...] = (str(PEERS / "bin" / "cnitool"),)
    options: tuple[str, ...] = ()

    def __init__(self, host: Host) -> None:
        self._environment = {
            **os.environ,
            **host.plugin_environment,
            "NETCONFPATH": str(host.confs),
            "CNI_PATH": os.pathsep.join(map(str, PLUGIN_DIRS)),
        }

    def add(self, network: str, netns: str, **capability_args: Any) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._run("add", network, netns, capability_args))
        return result

    def check(self, network: str, netns: str, **capability_args: Any) -> None:
        self._run("check", network, netns, capability_args)

    def delete(self, network: str, netns: str, **capability_args: Any) -> None:
        self._run("del", network, netns, capability_args)

    def gc(self, network: str, **options: str) -> None:
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._run("gc", network, "unused", {}, *words)

    def status(self, network: str) -> None:
        self._run("status", network, "unused", {})

    def refusal(self, said: str) -> Refused:
        return Refused(said.partition("\n")[0], None)

    def _run(
        self, verb: str, network: str, netns: str, capability_args: dict[str, Any], *options: str
    ) -> str:
        done = subprocess.run(
            [*self.words, verb, *self.options, *options, network, netns],
            env={**self._environment, "CAP_ARGS": json.dumps(capability_args)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        if done.returncode != 0:
            raise self.refusal(done.stderr)
        return done.stdout


class Command(Cnitool):
    """`netloom cni`, called as cnitool is."""

    words = (str(Path(sys.executable).with_name("netloom")), "cni")
    options = ("--json",)

    def refusal(self, said: str) -> Refused:
        document = json.loads(said)
        return Refused(document["error"], int(document["code"]))


class Library:
    """`netloom.cni` in this process, which has to have in its environment what the plugins need."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._runtime = Runtime(list(map(str, PLUGIN_DIRS)), timeout=30)

    def add(self, network: str, netns: str, **capability_args: Any) -> dict[str, Any]:
        result = self._runtime.add(self._network(network), self._endpoint(netns, capability_args))
        document: dict[str, Any] = json.loads(result.encode())
        return document

    def check(self, network: str, netns: str, **capability_args: Any) -> None:
        try:
            self._runtime.check(self._network(network), self._endpoint(netns, capability_args))
        except CNIError as error:
            raise Refused(str(error), error.code) from None

    def delete(self, network: str, netns: str, **capability_args: Any) -> None:
        self._runtime.delete(self._network(network), self._endpoint(netns, capability_args))

    def gc(self, network: str) -> None:
        self._runtime.gc(self._network(network))

    def status(self, network: str) -> None:
        self._runtime.status(self._network(network))

    def _network(self, name: str) -> NetworkConfig:
        return parse_network((self._host.confs / f"10-{name}.conflist").read_bytes())

    def _endpoint(self, netns: str, capability_args: dict[str, Any]) -> Endpoint:
        return Endpoint(Path(netns).name, netns, capability_args=capability_args)


class GoCni:
    """containerd's library, which knows no names: it takes the first network of the host."""

    def __init__(self, host: Host) -> None:
        self._confs = host.confs
        self._environment = {
            **os.environ,
            **host.plugin_environment,
            "CNI_PATH": os.pathsep.join(map(str, PLUGIN_DIRS)),
        }

    def setup(self, netns: str, **capability_args: Any) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._run("setup", netns, capability_args))
        return result

    def check(self, netns: str, **capability_args: Any) -> None:
        self._run("check", netns, capability_args)

    def remove(self, netns: str, **capability_args: Any) -> None:
        self._run("remove", netns, capability_args)

    def _run(self, verb: str, netns: str, capability_args: dict[str, Any]) -> str:
        done = subprocess.run(
            [PEERS / "bin" / "gocni", verb, self._confs, Path(netns).name, netns],
            env=self._environment,
            input=json.dumps(capability_args),
            capture_output=True,
            text=True,
            timeout=30,
        )
        if done.returncode != 0:
            raise Refused(done.stderr.strip(), None)
        return done.stdout
