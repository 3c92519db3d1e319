"""The parts of the demo: a node with its agent, containers, pings, and queries of their state."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.hosts import ask
from netloom.agent.settings import Settings
from netloom.api.findings import Finding
from netloom.api.paths import DEFAULT_SOCKET, DEFAULT_STATE_DIR
from netloom.api.protocol import Head, encode
from netloom.ipam import PoolConfig, parse_pools
from netloom.journal import Ledger, in_memory, read_only
from netloom.kernel import Namespace
from netloom.kernel.netlink.nft_elements import read_elements
from netloom.kernel.objects.link import link_names
from netloom.networks import names, table
from netloom.ops.audit import audit

_PATIENCE = 20.0
# Whatever ends the demo, every process that it started ends with it.
_TIED = ("setpriv", "--pdeathsig", "KILL")


class DemoFailed(Exception):
    """A statement of the demo is wrong."""


class Agent:
    """`netloom agent`, with its journal and its socket at their default paths."""

    settings = Settings(state_dir=DEFAULT_STATE_DIR, socket=DEFAULT_SOCKET)

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, failpoint: str = "") -> float:
        """Starts the agent; returns the seconds until it answers."""
        command = [*_TIED, str(Path(sys.executable).with_name("netloom")), "agent"]
        environment = {**os.environ, **({"NETLOOM_FAILPOINT": failpoint} if failpoint else {})}
        began = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while not self._answers():
            if self._process.poll() is not None or time.perf_counter() - began > _PATIENCE:
                raise DemoFailed(f"the agent does not answer: {self._log.read_text()[-2000:]}")
            time.sleep(0.005)
        return time.perf_counter() - began

    def _answers(self) -> bool:
        try:
            return ask(self.settings.socket, encode(Head(protocol=1, question="info"))) is not None
        except OSError:
            return False

    def ended_by(self) -> str:
        """Waits for its end; returns the name of the signal, or the exit status."""
        assert self._process is not None
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"the agent did not end: {self._log.read_text()[-2000:]}") from None
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def stop(self) -> str:
        assert self._process is not None
        self._process.terminate()
        return self.ended_by()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    # What it leaves on disk.

    def ledger(self) -> Ledger:
        """Returns a copy of the journal, whether an agent runs or not."""
        connection = read_only(self.settings.journal)
        try:
            return in_memory(connection)
        finally:
            connection.close()

    def queued(self) -> int:
        directory = Path(self.settings.intents)
        return len(list(directory.glob("*.del"))) if directory.exists() else 0

    def audit(self, pools: list[dict[str, Any]]) -> list[Finding]:
        """Returns the disagreements between journal, pools and kernel."""
        with Namespace.own() as host:
            return audit(self.ledger(), host, parse_pools([PoolConfig(**pool) for pool in pools]))

    def left_in_kernel(self) -> list[str]:
        """Returns the links and firewall elements of attachments."""
        with Namespace.own() as host:
            found = [name for name in link_names(host) if names.host_link_of(name) is not None]
            for name in table.SETS:
                of = table.TABLE
                elements = read_elements(host.netfilter, of.family, of.name, name) or ()
                found += [" . ".join(key) for key in elements]
        return found


class Ping:
    """A ping that runs until its result is requested."""

    def __init__(self, container: str, address: str) -> None:
        self.address = address
        command = [*_TIED, "nsenter", f"--net={netns(container)}", "ping", "-n", "-i", "0.02", address]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self) -> tuple[int, int]:
        """Returns how many were sent and answered. One in progress at the end is not counted."""
        self._process.send_signal(signal.SIGINT)
        output, _ = self._process.communicate(timeout=_PATIENCE)
        sent, received = _counted(output)
        answered = re.findall(r"icmp_seq=(\d+)", output)
        under_way = sent - received == 1 and bool(answered) and int(answered[-1]) == received
        return sent - under_way, received

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def ping(container: str, address: str) -> tuple[int, int]:
    """Sends three; returns how many were sent and answered."""
    words = ["nsenter", f"--net={netns(container)}", "ping", "-n", "-c", "3", "-i", "0.1", "-W", "2", address]
    return _counted(subprocess.run(words, capture_output=True, text=True, check=False).stdout)


def _counted(output: str) -> tuple[int, int]:
    found = re.search(r"(\d+) packets transmitted, (\d+) received", output)
    if found is None:
        raise DemoFailed(f"ping said: {output.strip()}")
    return int(found.group(1)), int(found.group(2))


def make_container(name: str) -> None:
    run("ip", "netns", "add", name)


def remove_container(name: str) -> None:
    run("ip", "netns", "del", name)


def netns(name: str) -> str:
    return f"/run/netns/{name}"


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoFailed(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
