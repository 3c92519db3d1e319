"""A machine on which an operator works: a host of its own, its directories, and the commands on it.

An agent that `netloom up` starts belongs to nobody; it is ended when the machine goes.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from netloom.api.paths import Place
from netloom.ops.control.process import holder

from ..agent.stage import Node, eventually
from .stage import NETLOOM, PATIENCE, Outcome, Stage


def up_to_date(asked: Callable[[], Outcome]) -> Outcome:
    """What is said without a warning that the log may lack what happened last."""
    outcomes: list[Outcome] = []

    def is_whole() -> bool:
        outcomes.append(asked())
        return "may be missing here" not in outcomes[-1].stdout + outcomes[-1].stderr

    assert eventually(is_whole), outcomes[-1]
    return outcomes[-1]


@contextmanager
def plain_etc() -> Iterator[Path]:
    """An /etc in which no service and no runtime of this machine is configured."""
    with tempfile.TemporaryDirectory(prefix="etc-", dir="/run") as directory:
        for name in ("upper", "work"):
            os.mkdir(f"{directory}/{name}")
        layers = f"lowerdir=/etc,upperdir={directory}/upper,workdir={directory}/work"
        subprocess.run(["mount", "-t", "overlay", "etc", "-o", layers, "/etc"], check=True)
        try:
            for name in ("containerd", "crio", "containers", "sysctl.d", "NetworkManager", "systemd"):
                shutil.rmtree(f"/etc/{name}", ignore_errors=True)
            yield Path("/etc")
        finally:
            subprocess.run(["umount", "--lazy", "/etc"], check=True)


class Machine:
    def __init__(self, directory: Path) -> None:
        """`directory` has a short name: a socket is in it."""
        self.stage = Stage(directory)
        self.node = Node(directory)
        self.stage.env |= {
            "NETLOOM_SOCKET": str(self.node.socket),
            "NETLOOM_STATE_DIR": str(self.node.state_dir),
        }
        self.plugin = self.stage.plugins / "netloom"
        self.conflist = self.stage.networks / "10-netloom.conflist"
        self.journal = self.node.state_dir / "journal.db"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_agent()
        self.node.close()

    # Commands.

    def run(
        self, *words: str, env: Mapping[str, str] | None = None, stdin: str = "", prefix: tuple[str, ...] = ()
    ) -> Outcome:
        return self.stage.run(*words, env=env, stdin=stdin, prefix=(*self.node.command(), *prefix))

    def on_a_terminal(self, *words: str, columns: int = 0) -> Outcome:
        return self.stage.on_a_terminal(*words, prefix=self.node.command(), columns=columns)

    def asked(self, answer: str, *words: str) -> Outcome:
        """A run that finds somebody at its terminal, who types the answer."""
        terminal, theirs = os.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        os.write(terminal, answer.encode())
        try:
            done = subprocess.run(
                [*self.node.command(), NETLOOM, *words],
                env=self.stage.env,
                stdin=theirs,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        finally:
            os.close(theirs)
            os.close(terminal)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def up(self, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
        return self.run("up", "--plugin-dir", str(self.stage.plugins), *words, env=env)

    def brought_up(self, *words: str) -> Any:
        """What `up` says that it did."""
        outcome = self.up("--json", *words)
        assert (outcome.status, outcome.stderr) == (0, "")
        return outcome.document

    def listed(self, *words: str) -> Any:
        return self.run("ls", "--json", *words).document

    def cni(self, verb: str, container: str, *words: str, **env: str) -> Outcome:
        """A verb of a runtime, on the network that `up` has made."""
        cache = ("--cache-dir", str(self.stage.cache))
        return self.run("cni", verb, "netloom", f"/run/netns/{container}", *cache, *words, env=env)

    def attach(self, container: str, *words: str, **env: str) -> Any:
        outcome = self.cni("add", container, *words, **env)
        assert outcome.status == 0, outcome.stderr
        return outcome.document

    def told(self, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
        """A run of a command that reads the log: again, while the agent is too busy to write it first."""
        return up_to_date(lambda: self.run(*words, env=env))

    def await_dels(self) -> None:
        """A DEL that took too long on a busy machine has succeeded all the same: it is queued."""
        assert eventually(lambda: self.node.intents() == []), self.node.intents()

    # The agent.

    @property
    def agent(self) -> int | None:
        """The process of the agent that has the journal."""
        return holder(Place(str(self.node.state_dir), str(self.node.socket)))

    def end_agent(self) -> None:
        """As the kernel does it when memory runs out."""
        process = self.agent
        if process is None:
            return
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(process)
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                assert select.select([handle], [], [], PATIENCE)[0], "the agent lives on"
            finally:
                os.close(handle)

    # What is there.

    @property
    def tables(self) -> list[str]:
        return self.node.inside("nft", "list", "tables").splitlines()

    def links_of(self, container: str) -> set[str]:
        listed = self.node.in_container(container, "ip", "-json", "link").stdout
        return {link["ifname"] for link in json.loads(listed)}

    def reaches(self, address: str) -> bool:
        """Whether the host gets an answer from there."""
        words = ("ping", "-n", "-c", "1", "-W", "2", address)
        return subprocess.run(self.node.command(*words), capture_output=True).returncode == 0
