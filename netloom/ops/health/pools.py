"""Findings about addresses: whether one more container would find some, and whether the counts add up.

What rests comes back by itself, and so counts as there when a pool is judged to be nearly used up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ...api.findings import Finding, remedy_of
from ...ipam import Shortage, SqlHoldings, would_allocate
from ...journal import Ledger, boottime
from ...kernel.values import shown_ip
from ...networks.config import Network
from ...networks.host import Host
from ...networks.scope import SCOPE
from ..node.networks import FILE

# Of the addresses that containers can have, this part is held.
_NEARLY = 0.9


def shortage_of(network: Network, host: Host, ledger: Ledger) -> Shortage | None:
    """Of addresses, if one more container would find none."""
    return would_allocate(
        network.pools,
        SqlHoldings(ledger.connection, host.taken(), host.orphaned()),
        scope=SCOPE,
        now=boottime(),
        cooldown=network.cooldown,
    )


def exhausted(network: str, path: str, pools: Iterable[str], shortage: Shortage) -> Finding:
    wait = "" if shortage.ready_in is None else "wait until addresses have rested, "
    return Finding(
        code="pool-exhausted",
        subject=network,
        text=f"nothing can be attached to {network} now: {shortage}",
        next=f"{wait}detach something (`netloom gc --dry-run` shows what is left over), or give the network "
        f"another pool: {another_pool(network, path, pools)}",
    )


def nearly_exhausted(
    network: str, path: str, pools: Iterable[str], used: Sequence[tuple[str, int, int]]
) -> Finding | None:
    """`used` are the pools of one family: the CIDR, how many containers can have, and how many are held."""
    capacity, held = sum(it[1] for it in used), sum(it[2] for it in used)
    if not capacity or held < capacity * _NEARLY:
        return None
    names = ", ".join(it[0] for it in used)
    return Finding(
        code="pool-nearly-exhausted",
        severity="warning",
        subject=network,
        text=f"network {network} has few addresses left: {held} of {capacity} in {names} are held",
        next=f"give the network another pool before it is used up: {another_pool(network, path, pools)}",
    )


def another_pool(network: str, path: str, pools: Iterable[str]) -> str:
    """Of the file that `netloom up` writes, its command; of any other, what to write there.

    `netloom up` replaces all pools by those that it is given: the old ones have to be named, too.
    """
    if os.path.basename(path) != FILE:
        return f'add {{"cidr": "NEW_CIDR"}} to `pools` in {path}'
    options = " ".join(f"--pool {cidr}" for cidr in (*pools, "NEW_CIDR"))
    return f"`netloom up --network {network} {options}`"


def address_orphaned(ip: bytes) -> Finding:
    shown = shown_ip(ip)
    return Finding(
        code="address-orphaned",
        subject=shown,
        text=f"{shown} is held by an attachment that is not there",
        next=remedy_of("address-orphaned"),
    )


def miscounted(cidr: str, held: int, resting: int, capacity: int) -> Finding:
    return Finding(
        code="pool-miscounted",
        subject=cidr,
        text=f"{cidr}: {held} held and {resting} resting of {capacity} are not what its rows say",
        next=remedy_of("pool-miscounted"),
    )
