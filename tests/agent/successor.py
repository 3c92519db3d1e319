"""Agents that follow one another on a node, and who calls meanwhile."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from netloom.failpoints import VARIABLE

from ..stdin import ready
from .installation import Installation
from .stage import NETLOOM, PLUGIN, Node, Outcome, eventually

# An agent as it was before there were handovers: it does not know the question.
_WITHOUT_HANDOVER = (
    "from netloom.agent.server import server; server.HANDOVER = 'not known'; "
    "from netloom.cli.main import main; main(['agent'])"
)


def successor(
    node: Node,
    step: str = "",
    *options: str,
    command: Sequence[str] = (str(NETLOOM),),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """An agent that follows the one that serves; it may die at a step. It is not waited for."""
    with open(node.directory / "agent.log", "ab") as log:
        return subprocess.Popen(
            node.command(*command, "agent", "--take-over", *options),
            env={**node.environment(environment), VARIABLE: step},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def follow(node: Node, step: str = "", *options: str) -> subprocess.Popen[bytes]:
    """One follows, and the one before it has ended. The one before it."""
    before = node.agent
    assert before is not None
    after = successor(node, step, *options)
    assert eventually(lambda: before.poll() is not None), node.log()[-2000:]
    node.agent = after
    return before


def start_installed(node: Node, installation: Installation) -> None:
    """An agent of another installation."""
    with open(node.directory / "agent.log", "ab") as log:
        node.agent = subprocess.Popen(
            node.command(*installation.command, "agent"),
            env=node.environment(installation.environment()),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    assert eventually(node.answers), node.log()[-2000:]


def start_without_handover(node: Node) -> None:
    with open(node.directory / "agent.log", "ab") as log:
        node.agent = subprocess.Popen(
            node.command(sys.executable, "-c", _WITHOUT_HANDOVER),
            env=node.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    assert eventually(node.answers)


class Caller:
    """Attaches, checks and detaches a container of its own, again and again, by the plugin."""

    def __init__(self, node: Node, plugin: Path) -> None:
        self._node = node
        self._plugin = plugin
        self._container = node.container()
        self.calls = 0
        self.failed: list[Outcome] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._enough.is_set():
            added = self._told("ADD")
            if added.status == 0:
                self._told("CHECK", self._node.config(prevResult=added.document))
            self._told("DEL")

    def _told(self, verb: str, config: bytes | None = None) -> Outcome:
        node = self._node
        with ready(node.config() if config is None else config) as stdin:
            done = subprocess.run(
                node.command(str(self._plugin)),
                stdin=stdin,
                env=node.environment(node.cni_environment(verb, self._container)),
                capture_output=True,
                timeout=90,
            )
        outcome = Outcome(done.returncode, done.stdout, done.stderr)
        self.calls += 1
        if outcome.status != 0:
            self.failed.append(outcome)
        return outcome

    def stop(self) -> None:
        """Its last call was a DEL."""
        self._enough.set()
        self._thread.join()


@contextmanager
def calling(node: Node, count: int, plugin: Path = PLUGIN) -> Iterator[list[Caller]]:
    """So many call meanwhile. Then their containers are detached, by an agent that serves."""
    callers = [Caller(node, plugin) for _ in range(count)]
    try:
        yield callers
    finally:
        for caller in callers:
            caller.stop()
    # A DEL that no agent had the time for has succeeded, and is done a moment later.
    assert eventually(lambda: node.intents() == []), node.intents()


def failures(callers: Sequence[Caller]) -> list[Outcome]:
    return [failed for caller in callers for failed in caller.failed]


def process_at(node: Node) -> int:
    """Who the kernel says listens there, to somebody who comes now."""
    with node.connect() as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process: int = struct.unpack("3i", credentials)[0]
    return process


def inode(path: Path) -> int:
    return os.stat(path).st_ino
