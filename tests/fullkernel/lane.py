"""The full-kernel lane on the machine's side: one guest for all of its tests, reported one by one.

The tests run in the guest, with their fixtures. Here each is reported as it was there: outcome,
duration, text of the failure, captured output. A test that the guest does not report fails.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..lanes import LANES, ROOT
from ..workers import FULL_KERNEL, group_of, is_worker, tell, told_by
from . import inside
from .guest import Guest, release_of

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# Emulation is slow, and slower still beside another worker.
DEADLINE = 1200.0
_POLL = 0.1


def in_lane(item: pytest.Item) -> bool:
    return item.get_closest_marker("fullkernel") is not None


class Events:
    """What the guest has written so far; a line is read when it is whole."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._offset = 0
        self.ready = False
        self.started: set[str] = set()
        self.finished: set[str] = set()
        self.reports: dict[str, list[pytest.TestReport]] = defaultdict(list)

    def read(self) -> None:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, event: dict[str, object]) -> None:
        match event:
            case {"ready": True}:
                self.ready = True
            case {"started": str(nodeid)}:
                self.started.add(nodeid)
            case {"finished": str(nodeid)}:
                self.finished.add(nodeid)
            case {"report": dict(data), "nodeid": str(nodeid)}:
                self.reports[nodeid].append(self._report(data))

    def _report(self, data: dict[str, object]) -> pytest.TestReport:
        hook = self._config.hook.pytest_report_from_serializable
        report: pytest.TestReport = hook(config=self._config, data=data)
        # The place and the reason of a skip are a tuple for pytest, which JSON does not know.
        if isinstance(report.longrepr, list):
            report.longrepr = tuple(report.longrepr)
        return report


class FullKernelLane:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._guest: Guest | None = None
        self._failed = False
        self._trouble: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # First, because pytest tears fixtures of the whole session down after the last test that it
        # runs itself; together, so that the guest has ended before any other test begins.
        items.sort(key=in_lane, reverse=True)
        for item in filter(in_lane, items if is_worker(self._config) else ()):
            if group_of(item.nodeid) != FULL_KERNEL:
                raise pytest.UsageError(f"{item.nodeid} would boot a guest of its own: see tests/workers.py")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not in_lane(item) or LANES["fullkernel"][1]() is not None:
            return None
        if self._guest is None:
            self._boot([item for item in item.session.items if in_lane(item)])
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports_of(item):
            self._failed |= report.failed
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if nextitem is None or not in_lane(nextitem):
            self._finish()
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # A run that was interrupted leaves its guest here.
        if self._guest is not None:
            self._guest.end()
        tell(session.config, guest=self._trouble)
        if self._trouble and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        self._trouble = self._trouble or told_by(node).get("guest")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._trouble:
            terminalreporter.section("full kernel")
            terminalreporter.line(self._trouble, red=True)

    def _boot(self, items: list[pytest.Item]) -> None:
        command = [sys.executable, "-m", "tests.fullkernel.inside", "{exchange}"]
        # The checkout is the command's working directory; autoloaded plugins cost seconds there.
        words = ["env", "-C", str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", *command]
        directories = [ROOT, self._config.rootpath, Path(sys.prefix), Path(sys.base_prefix)]
        guest = Guest(words, directories, DEADLINE)
        asked = inside.request(self._config, items)
        (guest.exchange / inside.REQUEST).write_text(json.dumps(asked))
        self._events = Events(self._config, guest.exchange / inside.EVENTS)
        started = time.monotonic()
        self._say(f"\nbooting {release_of(guest.kernel)} in QEMU for {len(items)} tests")
        guest.start()
        self._guest = guest
        while not self._events.ready and self._more():
            pass
        what = "is ready" if self._events.ready else "ended before its first test,"
        self._say(f"the guest {what} after {time.monotonic() - started:.1f} s")

    def _more(self) -> bool:
        """Waits a moment and reads what came; False if nothing more will come."""
        assert self._guest is not None
        running = self._guest.running()
        if running:
            time.sleep(_POLL)
        self._events.read()
        return running

    def _reports_of(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        given = 0
        more = True
        while True:
            reports = self._events.reports[item.nodeid]
            yield from reports[given:]
            given = len(reports)
            if item.nodeid in self._events.finished:
                return
            if not more:
                yield self._lost(item)
                return
            more = self._more()

    def _lost(self, item: pytest.Item) -> pytest.TestReport:
        assert self._guest is not None
        where = "while this test ran" if item.nodeid in self._events.started else "before this test"
        ending = f"{self._ending(self._guest)}, {where}."
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"{ending} The end of its console:\n{self._guest.console_tail()}",
            when="call",
            user_properties=item.user_properties,
        )

    def _ending(self, guest: Guest) -> str:
        code = guest.wait()
        if guest.expired:
            return f"The guest was ended at its deadline of {guest.deadline:.0f} s"
        return f"The guest ended with exit code {code}"

    def _finish(self) -> None:
        """A run in the guest can fail though every test passed: what it left behind is named there."""
        guest = self._guest
        assert guest is not None
        if guest.wait() != 0 and not self._failed:
            self._trouble = f"{self._ending(guest)}, though no test failed:\n{guest.console_tail()}"
        guest.end()
        self._guest = None

    def _say(self, text: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(text)
