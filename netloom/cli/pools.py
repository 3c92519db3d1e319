"""Show how full the pools are: what is held, what rests, what is free; an agent need not run.

An address that was released rests for a while before it is given again. --audit counts each pool once more,
address by address, and looks for addresses that nobody holds. The exit status is 1 if that finds something,
if a network has no address of a family left in any of its pools, or if the file of this node's network is
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
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..api.findings import Finding, any_error
from .arguments import add_json
from .moments import shown
from .output import printable_line, say
from .place import add_conf_dir, add_state_dir
from .status import FAILED
from .views import age, print_json, table

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


class PoolShown(Struct, frozen=True, kw_only=True, rename={"next_free": "nextFree"}):
    """A pool of addresses. `held`, `resting`, `orphaned`, `host` and `free` are together its capacity."""

    networks: Annotated[list[str], Meta(description="networks that give addresses from it")]
    cidr: Annotated[str, Meta(description="the pool")]
    family: Annotated[Literal[4, 6], Meta(description="of IP")]
    strategy: Annotated[str, Meta(description="how addresses are chosen")]
    gateway: Annotated[str, Meta(description="containers' next hop in it, never given; empty: none")]
    exclude: Annotated[list[str], Meta(description="what is never given, as ranges")]
    capacity: Annotated[int, Meta(description="addresses that can be given")]
    held: Annotated[int, Meta(description="by attachments")]
    resting: Annotated[int, Meta(description="released, and not given again yet")]
    orphaned: Annotated[
        int, Meta(description="of links that are not in the journal (orphaned): a container may use them")
    ]
    host: Annotated[
        int,
        Meta(description="of the host, its gateways, DNS servers and neighbours, which no container gets"),
    ]
    free: Annotated[int, Meta(description="that an ADD may have now")]
    percent: Annotated[float, Meta(description="of the capacity that is not free")]
    next_free: Annotated[
        float | None,
        Meta(
            description="when an ADD may have the next that rests, in seconds since 1970: after its "
            "cooldown, or after a tenth of it if no other is free; null: none rests"
        ),
    ]


class Outside(Struct, frozen=True):
    """An address that an attachment holds, and that no pool has which is configured now."""

    address: Annotated[str, Meta(description="the address")]
    attachment: Annotated[str, Meta(description="who holds it, as network/container/interface")]


class Pools(Struct, frozen=True):
    """How full the pools of this node are."""

    pools: Annotated[list[PoolShown], Meta(description="each once, also if several networks share it")]
    outside: Annotated[list[Outside], Meta(description="held, and of no pool")]
    findings: Annotated[list[Finding], Meta(description="what is wrong, and what to do next")]


OUTPUT = Pools


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--audit", action="store_true", help="count once more, and look for what nobody holds"
    )
    add_state_dir(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from .pool_report import report

    found = report(args)
    if not args.json:
        _show(args, found)
    else:
        print_json(found)
    return FAILED if any_error(found.findings) else 0


def _show(args: argparse.Namespace, it: Pools) -> None:
    from .explaining.shown import findings_lines

    if it.pools:
        rows = [_row(pool) for pool in it.pools]
        kept = [number for number in range(len(_HEADER)) if any(row[number] != "-" for row in rows)]
        say(*table([[row[number] for number in kept] for row in rows], [_HEADER[number] for number in kept]))
    elif it.findings:
        say("no pool is configured")
    else:
        say("no pool is configured: `netloom up` writes a network that has some")
    if it.outside:
        listed = [f"{one.address} ({one.attachment})" for one in it.outside[:_SHOWN]]
        more = f" and {len(it.outside) - _SHOWN} more" if len(it.outside) > _SHOWN else ""
        say("", printable_line(f"held, and of no pool that is configured now: {', '.join(listed)}{more}"))
    for one in it.pools:
        if note := _note(one, it.pools):
            say("", printable_line(note))
    if it.findings:
        say(*findings_lines(it.findings))
    elif args.audit:
        say("", "counted once more: the numbers add up, and every address that is held has an attachment")


def _note(full: PoolShown, pools: Sequence[PoolShown]) -> str:
    """Of a pool that has nothing left, while a network that uses it has another of its family."""
    if full.free:
        return ""
    others = [it for it in pools if it.free and it.family == full.family]
    taking = {name: [it.cidr for it in others if name in it.networks] for name in full.networks}
    said = [f"{name} takes from {', '.join(cidrs)}" for name, cidrs in taking.items() if cidrs]
    return f"note: pool {full.cidr} has none free; {'; '.join(said)}" if said else ""


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
    """Of an IPv6 pool, a number says nothing that a power of two does not."""
    if number < _COUNTABLE:
        return str(number)
    return f"2^{number.bit_length() - 1 if number & (number - 1) == 0 else len(bin(number - 1)) - 2}"
