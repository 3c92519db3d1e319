"""Collects the metrics for a scrape: current gauges, and the tally's counters."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import Counter
from functools import cache

from ... import __version__
from ...api import protocol
from ...ipam import SqlHoldings, usage
from ...journal import JournalError, Ledger, boottime
from ...ops.node.networks import NamedPool
from ..findings import findings_of
from ..journal_keeper import GONE
from ..node import Node
from ..readiness import Readiness
from .exposition import Family, Sample, family
from .tally import VERBS

# The names of the tally's counters, as `netloom status` shows them.
_COUNTERS = {
    "netloom_repair_failures_total": "unrepaired",
    "netloom_tables_laid_total": "tables",
    "netloom_replayed_dels_total": "replayed",
    "netloom_unfinished_adds_total": "unfinished",
    "netloom_strangers_total": "strangers",
    "netloom_forgotten_connections_total": "forgotten",
    "netloom_network_files_restored_total": "restored",
}
_REASONS = {"gc": "collected", "namespace": "leaked"}
# The index of starttime among the fields of /proc/self/stat that follow the name, which may have spaces.
_STARTED = 19


async def readings(node: Node, readiness: Readiness, under_way: int) -> list[Family]:
    return [
        *_operations(node),
        family("netloom_requests_under_way", under_way),
        *_dataplane(node),
        *await asyncio.to_thread(_attached, node),
        *_own_work(node),
        *await asyncio.to_thread(_journal, node),
        *_state(node, readiness),
        *await asyncio.to_thread(_process),
    ]


def _operations(node: Node) -> list[Family]:
    counters, tally = node.tally.counters, node.tally
    return [
        family(
            "netloom_operations_total",
            [
                ((verb, result), counters[f"{verb} {result}"])
                for verb in VERBS
                for result in ("done", "failed")
                if verb != "other" or counters[f"{verb} {result}"]
            ],
        ),
        family("netloom_operation_errors_total", sorted(tally.errors.items())),
        family(
            "netloom_operation_duration_seconds",
            [((verb,), histogram) for verb, histogram in tally.durations.items() if verb != "other"],
        ),
        family(
            "netloom_phase_duration_seconds",
            [
                ((verb, phase), histogram)
                for verb, phases in tally.phases.items()
                for phase, histogram in phases.items()
            ],
        ),
    ]


def _dataplane(node: Node) -> list[Family]:
    dataplane = node.dataplane
    return [
        family("netloom_queue_depth", [((lane,), depth) for lane, depth in dataplane.lanes.items()]),
        family("netloom_queue_limit", dataplane.limit),
        family("netloom_kernel_notifications_lost_total", dataplane.losses),
    ]


def _attached(node: Node) -> list[Family]:
    """Reads the journal. If it cannot be read, these metrics are left out."""
    pools = node.networks.pools()

    def read(ledger: Ledger) -> tuple[list[Sample], list[Sample], list[Sample]]:
        states: list[Sample] = [((str(state),), count) for state, count in ledger.count().items()]
        return (states, *_pools(ledger, pools, node))

    try:
        states, used, capacities = node.journal.survey(read)
    except JournalError:
        return []
    return [
        family("netloom_attachments", states),
        family("netloom_pool_addresses", used),
        family("netloom_pool_capacity_addresses", capacities),
    ]


def _pools(ledger: Ledger, pools: list[NamedPool], node: Node) -> tuple[list[Sample], list[Sample]]:
    holdings, now = SqlHoldings(ledger.connection, node.host.taken()), boottime()
    used: list[Sample] = []
    capacities: list[Sample] = []
    for it in pools:
        (counted,) = usage([it.pool], holdings, it.scope, now, it.cooldown)
        if it.is_asked and not counted.held and not counted.resting:
            continue  # its network may have been deleted
        place = (it.network, counted.cidr)
        states = {"free": counted.free, "held": counted.held, "resting": counted.resting}
        used += [((*place, state), count) for state, count in states.items()]
        capacities.append((place, counted.capacity))
    return used, capacities


def _own_work(node: Node) -> list[Family]:
    counters = node.tally.counters
    return [
        family("netloom_repairs_total", [((kind,), n) for kind, n in sorted(node.tally.put_back.items())]),
        family("netloom_releases_total", [((why,), counters[name]) for why, name in _REASONS.items()]),
        *(family(metric, counters[name]) for metric, name in _COUNTERS.items()),
    ]


def _journal(node: Node) -> list[Family]:
    journal = node.journal
    commits = node.tally.commits
    return [
        family(
            "netloom_journal_commit_duration_seconds",
            [(("yes" if durable else "no",), histogram) for durable, histogram in commits.items()],
        ),
        family("netloom_journal_writable", int(not journal.trouble and not node.conditions.failure(GONE))),
        family("netloom_journal_size_bytes", sum(map(_size, (journal.path, f"{journal.path}-wal")))),
        family("netloom_queued_dels", len(protocol.waiting(node.settings.intents))),
    ]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _state(node: Node, readiness: Readiness) -> list[Family]:
    networks = readiness.of_networks
    return [
        family("netloom_ready", int(not readiness.findings())),
        family(
            "netloom_network_ready",
            [((name,), int(not readiness.findings(name))) for name in sorted(networks)],
        ),
        family("netloom_troubles", len(readiness.of_node)),
        family("netloom_findings", [((code,), count) for code, count in sorted(_codes(node).items())]),
        family(
            "netloom_firewall_drops",
            [
                ((severity,), sum(it.severity == severity for it in node.firewalls.findings))
                for severity in ("error", "warning")
            ],
        ),
        family("netloom_build_info", [((__version__,), 1)]),
        family("netloom_start_time_seconds", round(node.tally.started, 3)),
    ]


def _codes(node: Node) -> Counter[str]:
    return Counter(it.code for it in findings_of(node))


def _process() -> list[Family]:
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm") as file:
        virtual, resident, *_ = (int(it) * page for it in file.read().split())
    used = os.times()
    return [
        family("process_cpu_seconds_total", round(used.user + used.system, 2)),
        family("process_resident_memory_bytes", resident),
        family("process_virtual_memory_bytes", virtual),
        family("process_open_fds", len(os.listdir("/proc/self/fd"))),
        family("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        family("process_start_time_seconds", _began()),
    ]


@cache
def _began() -> float:
    """Computed once: otherwise each step of the wall clock would change the result."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return round(time.time() - boottime() + int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK"), 2)
