"""The whole run in namespaces of its own, and proof at its end that nothing is left behind.

As root, the run moves into a private network and mount namespace before the first test: links,
routes and nft tables of the machine are out of reach, and /run and /var/lib are empty ones of
its own. Workers that share a run do so one by one, each into namespaces that the others do not see. At
the end the machine and the private namespaces must be as they were, and no process that a test started
may live.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .workers import is_shared_out, is_worker, tell, told_by

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18

# Every process that a test starts inherits this variable, and is found by it.
_MARK = "NETLOOM_TEST_RUN"
# Where Go's cnitool and the reference plugins keep state; cnitool's place is not configurable.
_PRIVATE_DIRS = ("/run", "/var/lib")
_MOMENT = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def _require(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


class Isolation:
    """Of the process that runs tests; with workers, each has its own, and the first process asks them all."""

    def __init__(self, config: pytest.Config) -> None:
        self.private = os.geteuid() == 0
        self._runs_tests = not is_shared_out(config)
        self._watches_the_machine = self.private and not is_worker(config)
        # The part in common finds what a worker that died has left.
        self.mark = _given(config) or uuid.uuid4().hex
        self._leaks: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[_MARK] = f"{self.mark}-{node.gateway.id}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        self._leaks += told_by(node).get("left", [])

    def pytest_sessionstart(self) -> None:
        if self._watches_the_machine:
            self._machine_net = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self._machine_before = self._machine()
        if self._runs_tests:
            os.environ[_MARK] = self.mark
            self._enter()

    def _enter(self) -> None:
        if not self.private:
            return
        _require(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET), "unshare")
        _require(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "make mounts private")
        for directory in _PRIVATE_DIRS:
            _require(_libc.mount(b"tmpfs", directory.encode(), b"tmpfs", 0, None), f"mount {directory}")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self._private_before = self._private()

    # After the workers have ended, and before a worker says how.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._leaks += _lasting(self._processes)
        if self._runs_tests and self.private:
            self._leaks += _lasting(
                lambda: _difference("in the run's namespace", self._private_before, self._private())
            )
            self._leaks += [f"namespace {name}" for name in _listdir("/run/netns")]
            for directory in reversed(_PRIVATE_DIRS):
                _libc.umount2(directory.encode(), 2)
        if self._watches_the_machine:
            _require(_libc.setns(self._machine_net, _CLONE_NEWNET), "setns")
            os.close(self._machine_net)
            self._leaks += _lasting(
                lambda: _difference("on the machine", self._machine_before, self._machine())
            )
        tell(session.config, left=self._leaks)
        if self._leaks and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("left behind")
        for leak in dict.fromkeys(self._leaks):
            terminalreporter.line(leak, red=True)
        if not self._leaks:
            checked = "namespaces, links, nft tables, mounts, processes" if self.private else "processes"
            terminalreporter.line(f"nothing ({checked})")

    def _machine(self) -> dict[str, list[str]]:
        return {**self._network(), "mount": _mounts("1"), "namespace": _listdir("/run/netns")}

    def _private(self) -> dict[str, list[str]]:
        # `ip netns` makes its directory a mount of its own, once, and leaves it so.
        mounts = [point for point in _mounts("self") if point != "/run/netns"]
        return {**self._network(), "mount": mounts}

    def _network(self) -> dict[str, list[str]]:
        links = json.loads(_output("ip", "-json", "link"))
        return {
            "link": sorted(link["ifname"] for link in links),
            "nft table": sorted(_output("nft", "list", "tables").splitlines()),
        }

    def _processes(self) -> list[str]:
        """Those of this run."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append(f"process {entry.name}: {command}")
            except OSError:
                continue
        return found


def _given(config: pytest.Config) -> str | None:
    """The mark of a worker is its parent's, and its own name."""
    given: str | None = getattr(config, "workerinput", {}).get(_MARK)
    return given


def _lasting(found: Callable[[], list[str]]) -> list[str]:
    """What is still there after a moment: processes end, and links go with their namespace, when they may."""
    deadline = time.monotonic() + _MOMENT
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _difference(where: str, before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    return [f"{kind} {name} {where}" for kind in before for name in after[kind] if name not in before[kind]]


def _mounts(process: str) -> list[str]:
    with open(f"/proc/{process}/mountinfo") as mounts:
        return sorted(line.split()[4] for line in mounts)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _listdir(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
