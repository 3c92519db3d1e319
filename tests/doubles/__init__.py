"""Plugins that tests run in the place of real ones, and what is needed to direct them."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from netloom.cni import NetworkConfig, parse_network

_HERE = Path(__file__).parent
LITERAL = '{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24"}]}'


def executable(path: Path, source: str) -> Path:
    path.write_text(source)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def shell_plugin(path: Path, body: str) -> Path:
    """A plugin in a few lines of shell."""
    return executable(path, f"#!/bin/sh\n{body}\n")


def recording_plugin(directory: Path) -> Path:
    """A directory with `plugin`, which answers with LITERAL and notes each command in `calls` beside it."""
    directory.mkdir()
    shell_plugin(directory / "plugin", f"echo $CNI_COMMAND >>{directory.parent}/calls; echo '{LITERAL}'")
    return directory


def python_plugin(path: Path, source: str) -> Path:
    """A plugin in Python, run by the interpreter of the tests."""
    return executable(path, f"#!{sys.executable}\n{source}")


def install_noop(directory: Path) -> Path:
    """The noop double, written with netloom's own SDK."""
    python_plugin(directory / "noop", (_HERE / "noop.py").read_text())
    return directory


class Noop:
    """One noop plugin of a list: its control file says what it does, and afterwards what it got."""

    def __init__(self, control: Path, **orders: Any) -> None:
        self.control = control
        self.order(**orders)

    def order(self, **orders: Any) -> None:
        self.control.write_text(json.dumps(orders))

    @property
    def command(self) -> str:
        """The last command that it got, "" for none."""
        return str(self._seen.get("Command", ""))

    @property
    def args(self) -> dict[str, str]:
        """The parameters that it got."""
        seen = self._seen["CmdArgs"]
        assert isinstance(seen, dict)
        return seen

    @property
    def stdin(self) -> dict[str, Any]:
        document = json.loads(self.stdin_bytes)
        assert isinstance(document, dict)
        return document

    @property
    def stdin_bytes(self) -> bytes:
        return base64.b64decode(self.args["StdinData"])

    @property
    def _seen(self) -> dict[str, Any]:
        document = json.loads(self.control.read_text())
        assert isinstance(document, dict)
        return document


class Doubles:
    """Makes noop plugins and lists of them; `log` has the commands in the order of their execution."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = directory / "commands.json"
        self._log.touch()
        self._count = 0

    def noop(self, **orders: Any) -> Noop:
        self._count += 1
        return Noop(self.directory / f"control-{self._count}.json", **orders)

    def network(
        self, *plugins: Noop, version: str = "1.1.0", name: str = "net", **keys: Any
    ) -> NetworkConfig:
        entries = [self.entry(plugin) for plugin in plugins]
        document = {"cniVersion": version, "name": name, "plugins": entries, **keys}
        return parse_network(json.dumps(document).encode())

    def entry(self, plugin: Noop, **keys: Any) -> dict[str, Any]:
        return {"type": "noop", "debugFile": str(plugin.control), "commandLog": str(self._log), **keys}

    @property
    def log(self) -> list[tuple[str, dict[str, Any]]]:
        """Each command with the stdin that came with it."""
        text = self._log.read_text()
        entries = json.loads(text) if text else []
        return [
            (entry["Command"], json.loads(base64.b64decode(entry["CmdArgs"]["StdinData"])))
            for entry in entries
        ]

    @property
    def commands(self) -> list[str]:
        return [command for command, _ in self.log]

    def forget(self) -> None:
        self._log.write_text("")


def cache_files(cache: Path) -> list[str]:
    results = cache / "results"
    return sorted(os.listdir(results)) if results.exists() else []
