"""Show whether the node works: its agent, the number of attachments, the usage of the pools.

The exit status is 1 if no agent answers; if an ADD would fail now, on one network or on all; if the
configuration of a netloom network is missing or invalid; if runtimes do not find the plugin where it was
installed, or first find a configuration that they cannot load; or if a firewall drops all traffic of
containers to the outside, to each other or from the host. The command shows what is in the journal in any
case.

examples:
  netloom status
  netloom status --json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from math import log2

from ...api.text import age
from ...ops.advice import require_root
from ...ops.status.document import PoolStatus, Status
from ...ops.status.report import is_well, report
from ..arguments import add_conf_dir, add_json, add_place, place_of
from ..exit_status import FAILED
from ..terminal.output import say
from ..terminal.tables import finding_lines, print_json, table

OUTPUT = Status

_COUNTABLE = 10**9
_SHOWN = 3
_WORKS = "containers can be attached"
_WELL = f"no problems found: {_WORKS}"
_FURTHER = "`netloom doctor` also checks runtimes, firewalls and the kernel"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("connecting to the agent")
    found = report(place_of(args))
    if not args.json:
        _show(found)
    else:
        print_json(found)
    return 0 if is_well(found) else FAILED


def _show(found: Status) -> None:
    say(*table(_facts(found)))
    pools = [(network.name, pool) for network in found.networks for pool in network.pools]
    if pools:
        say("", *_table_of(pools))
    for it in found.findings:
        say("", *finding_lines(it))
    if is_well(found):
        say("", f"{_WORKS if found.findings else _WELL}; {_FURTHER}")


def _table_of(pools: Sequence[tuple[str, PoolStatus]]) -> list[str]:
    """Omits the columns of orphans and of the host where all numbers are zero."""
    shown: list[tuple[str, list[int | None]]] = [
        ("CAPACITY", [it.capacity for _, it in pools]),
        ("HELD", [it.held for _, it in pools]),
        ("RESTING", [it.resting for _, it in pools]),
        ("ORPHANED", [it.orphaned for _, it in pools]),
        ("HOST", [it.host for _, it in pools]),
        ("FREE", [it.free for _, it in pools]),
    ]
    rare = ("ORPHANED", "HOST")
    columns = [(name, numbers) for name, numbers in shown if name not in rare or any(numbers)]
    rows = [
        (name, pool.cidr, *(_counted(numbers[row]) for _, numbers in columns))
        for row, (name, pool) in enumerate(pools)
    ]
    return table(rows, ["NETWORK", "POOL", *(name for name, _ in columns)])


def _facts(found: Status) -> list[tuple[str, str]]:
    rows = [("agent", _shown_agent(found))]
    if found.agent is not None:
        rows.append(("mtu", str(found.agent.mtu)))
    if found.attachments is None:
        rows.append(("attachments", "unknown"))
    else:
        states = ", ".join(f"{count} {state}" for state, count in found.attachments.items() if count)
        rows.append(("attachments", states or "none"))
    if found.outside:
        rows.append(("outside", _shown_outside(found.outside)))
    if found.intents:
        rows.append(("queued", f"{found.intents} DEL, for the next agent"))
    if found.counters:
        rows.append(("counters", ", ".join(f"{what} {count}" for what, count in found.counters.items())))
    return rows


def _shown_agent(found: Status) -> str:
    agent = found.agent
    if agent is None:
        return f"does not answer (process {found.silent})" if found.silent else "not running"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(agent.started))
    lasted = age(time.time() - agent.started)
    return f"version {agent.version}, process {agent.process}, since {since} ({lasted}), at {found.socket}"


def _shown_outside(addresses: Sequence[str]) -> str:
    more = f" and {len(addresses) - _SHOWN} more" if len(addresses) > _SHOWN else ""
    verb = "is" if len(addresses) == 1 else "are"
    return f"{', '.join(addresses[:_SHOWN])}{more} {verb} held, but outside all configured pools"


def _counted(number: int | None) -> str:
    """Writes the large numbers of IPv6 pools as powers of two; ? if unknown."""
    if number is None:
        return "?"
    return str(number) if number < _COUNTABLE else f"2^{log2(number):.0f}"
