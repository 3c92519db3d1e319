"""How one run is shared out between worker processes, with `-n 4`: what stays together, and what goes first.

A file's tests stay in one worker, with the fixtures of the file. The full-kernel lane does so as a whole,
because it boots one guest. Whoever runs long comes first, so that no worker is left waiting at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

FULL_KERNEL = "fullkernel"
# What must be in one worker though it is in several files: where a nodeid begins, and the name of the group.
TOGETHER = {
    "tests/fullkernel/": FULL_KERNEL,
    "tests/kernel/test_wireguard.py": FULL_KERNEL,
    "tests/kernel/objects/test_rows_fullkernel.py": FULL_KERNEL,
}
# Half a minute each, and more, in this order: the longest first, and seldom two guests at a time.
LONG = (
    FULL_KERNEL,
    "tests/interop/test_install.py",
    "tests/crash/test_agent.py",
    "tests/cli/test_connectivity.py",
    "tests/crash/test_handover.py",
    "tests/cli/test_bundle.py",
    "tests/test_without_ipv6.py",
    "tests/interop/test_cnitool.py",
    "tests/cli/test_faults.py",
    "tests/cli/test_top.py",
    "tests/cli/test_check.py",
    "tests/test_fullkernel.py",
    "tests/plugin/test_memory.py",
    "tests/agent/test_handover.py",
    "tests/test_run_checks.py",
    "tests/crash/test_upgrade.py",
    "tests/agent/test_traffic.py",
    "tests/crash/test_agent_under_load.py",
    "tests/crash/test_services.py",
    "tests/service/test_booted.py",
    "tests/cli/test_lost_journal.py",
    "tests/interop/test_prometheus.py",
    "tests/crash/test_agent_and_plugin.py",
    "tests/agent/test_bandwidth.py",
    "tests/agent/test_model.py",
    "tests/kernel/test_plan_properties.py",
    "tests/cli/test_diverted.py",
    "tests/crash/test_agent_errors.py",
)


def group_of(nodeid: str) -> str:
    for beginning, group in TOGETHER.items():
        if nodeid.startswith(beginning):
            return group
    return nodeid.partition("::")[0]


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def is_shared_out(config: pytest.Config) -> bool:
    """Whether others run the tests for this process."""
    return bool(config.getoption("numprocesses", None)) and not is_worker(config)


def tell(config: pytest.Config, **facts: Any) -> None:
    """At a worker's end, to whoever started it: there `told_by` gives them back."""
    if is_worker(config):
        config.workeroutput.update(facts)  # type: ignore[attr-defined]


def told_by(node: WorkerController) -> dict[str, Any]:
    """Nothing by a worker that died."""
    return getattr(node, "workeroutput", None) or {}


class LongFirst:
    """In a worker: groups that take long come first, the others as they were collected."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        turns = {group: turn for turn, group in enumerate(LONG)}
        items.sort(key=lambda item: turns.get(group_of(item.nodeid), len(LONG)))


class Workers:
    """Shares the tests out; fails the run if a worker died."""

    def __init__(self, config: pytest.Config) -> None:
        self._died: list[str] = []
        # With a worker its namespaces died; what another would find in its place is anybody's guess.
        config.option.maxworkerrestart = "0"

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> Scheduling:
        from xdist.scheduler import LoadScopeScheduling

        class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
            def _split_scope(self, nodeid: str) -> str:
                return group_of(nodeid)

        config.option.loadscopereorder = False
        return ByGroup(config, log)

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        if error or not told_by(node):
            self._died.append(f"worker {node.gateway.id} died: {error or 'it did not say why'}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._died and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._died:
            terminalreporter.line(line, red=True)
