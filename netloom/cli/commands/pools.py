"""Show the address pools: held, resting and free addresses. The command needs no agent.

A released address rests (cools down) before it can be assigned again. --audit recounts each pool address by
address, and reports addresses without an attachment. The exit status is 1 if the audit finds an error, if a
network has no free address of a family in any of its pools, or if the node's network configuration is
missing.

examples:
  netloom pools
  netloom pools --audit
  netloom pools --json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from math import ceil

from ...api.findings import any_error
from ...api.text import age, printable_line
from ...api.times import shown
from ...ops.status.document import Pools, PoolShown
from ..arguments import add_conf_dir, add_json, add_state_dir, place_of
from ..exit_status import FAILED
from ..terminal.output import say
from ..terminal.tables import print_json, table

_SHOWN = 3
_COUNTABLE = 10**9
_HEADER = (
    "NETWORK",
    "POOL",
    "STRATEGY",
    "CAPACITY",
    "HELD",
    "RESTING",
    "ORPHANED",
    "HOST",
    "FREE",
    "USED",
    "NEXT FREE",
    "EXCLUDED",
)


OUTPUT = Pools


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--audit", action="store_true", help="recount every pool, and report addresses without an attachment"
    )
    add_state_dir(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...ops.status.pools import report

    found = report(place_of(args), audit=args.audit)
    if args.json:
        print_json(found)
    else:
        _show(found, was_audited=args.audit)
    return FAILED if any_error(found.findings) else 0


def _show(it: Pools, *, was_audited: bool) -> None:
    from ..terminal.reports import findings_lines

    if it.pools:
        rows = [_row(pool) for pool in it.pools]
        kept = [number for number in range(len(_HEADER)) if any(row[number] != "-" for row in rows)]
        say(*table([[row[number] for number in kept] for row in rows], [_HEADER[number] for number in kept]))
    elif it.findings:
        say("no pool is configured")
    else:
        say("no pool is configured: `netloom up` configures a network with pools")
    if it.outside:
        listed = [f"{one.address} ({one.attachment})" for one in it.outside[:_SHOWN]]
        more = f" and {len(it.outside) - _SHOWN} more" if len(it.outside) > _SHOWN else ""
        say("", printable_line(f"held, but outside all configured pools: {', '.join(listed)}{more}"))
    for one in it.pools:
        if note := _note(one, it.pools):
            say("", printable_line(note))
    if it.findings:
        say(*findings_lines(it.findings))
    elif was_audited:
        say("", "audit passed: the counts are correct, and every held address has an attachment")


def _note(full: PoolShown, pools: Sequence[PoolShown]) -> str:
    """Returns a note about an exhausted pool if a network that uses it has another pool of the family."""
    if full.free:
        return ""
    others = [it for it in pools if it.free and it.family == full.family]
    taking = {name: [it.cidr for it in others if name in it.networks] for name in full.networks}
    said = [f"{name} uses {', '.join(cidrs)}" for name, cidrs in taking.items() if cidrs]
    return f"note: pool {full.cidr} has no free address; {'; '.join(said)}" if said else ""


def _row(it: PoolShown) -> list[str]:
    return [
        ",".join(it.networks),
        it.cidr,
        it.strategy,
        counted(it.capacity),
        counted(it.held),
        counted(it.resting),
        counted(it.orphaned) if it.orphaned else "-",
        counted(it.host) if it.host else "-",
        counted(it.free),
        used(it),
        "-" if it.next_free is None else _moment(it.next_free),
        _cut(it.exclude) or "-",
    ]


def _moment(when: float) -> str:
    left = when - time.time()
    return f"in {age(ceil(left))} ({shown(when)[11:]})" if left > 0 else "now"


def used(it: PoolShown) -> str:
    return "<1%" if it.free < it.capacity and it.percent < 1 else f"{it.percent:.0f}%"


def _cut(excluded: list[str]) -> str:
    more = f",+{len(excluded) - _SHOWN}" if len(excluded) > _SHOWN else ""
    return ",".join(excluded[:_SHOWN]) + more


def counted(number: int) -> str:
    """Writes the large numbers of IPv6 pools as powers of two."""
    if number < _COUNTABLE:
        return str(number)
    return f"2^{number.bit_length() - 1 if number & (number - 1) == 0 else len(bin(number - 1)) - 2}"
