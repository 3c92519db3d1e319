"""Test lanes: what each needs, and what a run says about them at its end.

A lane is a pytest marker, and every test is in exactly one. A lane whose needs are met must run:
with `--every-lane`, the whole run fails if one of its tests was skipped or deselected. With `--soak`, it
fails if one that was selected was skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .fullkernel.guest import why_no_guest
from .workers import tell, told_by

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".peers"


def _needs_root() -> str | None:
    return None if os.geteuid() == 0 else "needs root"


def _needs_peers() -> str | None:
    if not (PEERS / "stamp").exists():
        return "needs the peers that `make setup` builds"
    return _needs_root()


def _needs_guest() -> str | None:
    return _needs_root() or why_no_guest()


# Lane, what it is, and why it cannot run here (None: it can).
LANES: dict[str, tuple[str, Callable[[], str | None]]] = {
    "unit": ("pure code and hypothesis; anywhere, without root", lambda: None),
    "kernel": ("this kernel, in namespaces of the test's own", _needs_root),
    "interop": ("the reference plugins and Go's tools", _needs_peers),
    "fullkernel": ("the distribution's kernel in QEMU", _needs_guest),
    "crash": ("SIGKILL at every step, then a second life", _needs_root),
    "lab": ("several nodes as namespaces", _needs_root),
}


# Lanes whose first tests come with the parts that they are about.
TO_COME = frozenset({"lab"})


_LANE = "lane"
# Of a test that ended with its worker, whose report cannot say more.
_UNKNOWN = "unknown"


def _lane_of(it: pytest.Item | pytest.TestReport) -> str:
    return str(dict(it.user_properties).get(_LANE, _UNKNOWN))


class LaneReport:
    """Counts what ran in each lane and says so; fails the run for a lane that could run and did not."""

    def __init__(self, strict: bool, soak: bool = False) -> None:
        self.strict = strict
        self.soak = soak
        self.collected: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.skipped: dict[str, Counter[str]] = {lane: Counter() for lane in LANES}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            lanes = [lane for lane in LANES if item.get_closest_marker(lane)]
            if len(lanes) != 1:
                raise pytest.UsageError(f"{item.nodeid} must be in one lane, not in {lanes or 'none'}")
            # A report has them, too, wherever it was made: in a worker or in a guest.
            item.user_properties.append((_LANE, lanes[0]))
            self.collected[lanes[0]] += 1

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        reason = LANES[_lane_of(item)][1]()
        if reason is not None:
            pytest.skip(reason)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        lane = _lane_of(report)
        if report.failed:
            self.failed[lane] += 1
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[lane][reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self.passed[lane] += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Every worker collects all tests, and runs some."""
        self.collected |= Counter(told_by(node).get("collected", {}))

    def idle(self) -> list[str]:
        """Lanes that could run here and did not run all of their tests."""
        found = []
        for lane, (_, unavailable) in LANES.items():
            ran = self.passed[lane] + self.failed[lane]
            if unavailable() is None and not self.collected[lane] and lane not in TO_COME:
                found.append(f"{lane}: it has no tests")
            if unavailable() is None and ran < self.collected[lane]:
                found.append(
                    f"{lane}: {self.collected[lane] - ran} of {self.collected[lane]} tests did not run"
                )
        return found

    def _is_short(self) -> bool:
        return (self.strict and bool(self.idle())) or (self.soak and any(self.skipped.values()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        tell(session.config, collected=dict(self.collected))
        if self._is_short() and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _counts(self, lane: str) -> str:
        if not self.collected[lane]:
            return "no tests here"
        if not (self.passed[lane] or self.failed[lane] or self.skipped[lane]):
            return "not selected"
        return f"{self.passed[lane]} passed, {self.failed[lane]} failed"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("lanes")
        for lane, (what, unavailable) in LANES.items():
            terminalreporter.line(f"{lane:11}{self._counts(lane):22} {what}")
            for reason, count in self.skipped[lane].items():
                terminalreporter.line(f"{'':11}{count} skipped: {reason}", yellow=True)
            if unavailable() is not None and not self.skipped[lane] and self.collected[lane]:
                terminalreporter.line(f"{'':11}cannot run here: {unavailable()}", yellow=True)
        if self.strict:
            for lane in self.idle():
                terminalreporter.line(f"could run and did not: {lane}", red=True)
