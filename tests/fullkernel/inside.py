"""What the guest runs: one pytest over the tests that the machine selected, its reports sent back.

Started as `python -m tests.fullkernel.inside DIRECTORY`, with a `Request` in the directory. The
events that it writes there are read by `lane.FullKernelLane`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pytest

REQUEST = "request.json"
EVENTS = "events.jsonl"

# Loaded before the first test, where the kernel has them: some are not loaded on demand, and a test
# that measures a time should not measure the loading of a module.
MODULES = (
    *("bridge", "dummy", "ifb", "ipvlan", "macvlan", "tun", "veth", "vrf", "vxlan", "wireguard", "8021q"),
    *("sch_ingress", "sch_tbf", "sch_htb", "sch_fq_codel", "sch_netem"),
    *("cls_matchall", "cls_u32", "cls_flower", "cls_bpf", "act_mirred", "act_police", "act_gact"),
    *("nf_tables", "nf_conntrack", "nf_conntrack_netlink", "nf_nat", "br_netfilter"),
    *("nft_chain_nat", "nft_compat", "nft_ct", "nft_fib_inet", "nft_limit", "nft_log", "nft_masq"),
    *("nft_nat", "nft_redir", "nft_reject_inet"),
)


class Reporter:
    """Runs the selected tests only, and writes every report down as soon as it is known."""

    def __init__(self, selected: frozenset[str], events: TextIO) -> None:
        self._selected = selected
        self._events = events

    def write(self, **event: Any) -> None:
        print(json.dumps(event), file=self._events, flush=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._selected]

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.write(report=data, nodeid=report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.write(finished=nodeid)


def request(config: pytest.Config, items: list[pytest.Item]) -> dict[str, Any]:
    """What the guest is asked for: files to collect, tests to run, and the options that shape reports.

    The files are named rather than the tests, because an ID of a parametrised test may hold any
    character, and pytest would take it apart.
    """
    options = ["-p", "no:cacheprovider", "--rootdir", str(config.rootpath), f"--tb={config.option.tbstyle}"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    for plugin in config.option.plugins:
        # A worker prints nothing; the guest says on its console what went wrong.
        if plugin != "no:terminal":
            options += ["-p", plugin]
    return {
        "arguments": [*options, *dict.fromkeys(str(item.path) for item in items)],
        "selected": [item.nodeid for item in items],
    }


def run(asked: Mapping[str, Any], events: TextIO) -> int:
    reporter = Reporter(frozenset(asked["selected"]), events)
    subprocess.run(["modprobe", "--all", *MODULES], check=False)
    reporter.write(ready=True)
    return pytest.main(asked["arguments"], plugins=[reporter])


def main(directory: Path) -> int:
    asked = json.loads((directory / REQUEST).read_text())
    with open(directory / EVENTS, "w") as events:
        return run(asked, events)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
