"""One attachment's addresses: what was asked for by name, else one of each family that the network has.

All or nothing: nothing is changed before every address is found, and what follows is in the caller's
transaction. An attachment with half of its families would be a container that works half.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..kernel.values import shown_ip
from .errors import Exhausted, Taken
from .holdings import HELD, Holdings, resting_since
from .pool import Family, Pool, by_family
from .pressure import Resting, longest_resting
from .requested import pool_of
from .strategy import STRATEGIES
from .usage import shortage, usage
from .vacancy import Vacancies


class Allocation(Struct, frozen=True):
    """`rested` are the seconds for which it rested, if it goes again before its rest is over."""

    ip: bytes
    pool: Pool
    rested: float | None


def allocate(
    pools: Sequence[Pool],
    requested: Sequence[bytes],
    holdings: Holdings,
    *,
    scope: str,
    now: float,
    cooldown: float,
    identity: tuple[str, ...],
) -> tuple[Allocation, ...]:
    """The addresses of an attachment, IPv4 first. Who calls writes them down in the same transaction.

    `now` is in seconds since boot. An address that was released rests for `cooldown` seconds, unless it
    is asked for by name, or there is no other and it has rested for a tenth of that.
    """
    since = resting_since(now, cooldown)
    named = {ip: pool_of(ip, pools) for ip in requested}
    found: list[Allocation] = []
    moves: list[Allocation] = []
    for family, own in by_family(pools):
        asked = [
            _by_name(ip, pool, holdings, scope, now, since)
            for ip, pool in named.items()
            if pool.family == family
        ]
        if asked:
            found += asked
            continue
        chosen = _by_strategy(own, holdings, scope, since, identity)
        if chosen is None:
            chosen = _early(family, own, holdings, scope, now, cooldown)
        elif chosen.pool.strategy == "sequential":
            moves.append(chosen)
        found.append(chosen)
    for it in moves:
        holdings.move_cursor(scope, it.pool.cidr, it.ip)
    return tuple(found)


def _by_name(ip: bytes, pool: Pool, holdings: Holdings, scope: str, now: float, since: float) -> Allocation:
    released = holdings.released_at(scope, ip)
    if released == HELD:
        raise Taken(
            f"{shown_ip(ip)} was asked for by name, and {holdings.holder(scope, ip)} holds it",
            f"ask for another, or detach who holds it; `netloom explain {shown_ip(ip)}` tells since when",
        )
    if released <= since:
        return Allocation(ip, pool, None)
    return Allocation(ip, pool, Resting(released, ip, pool).rested(now))


def _by_strategy(
    pools: Sequence[Pool], holdings: Holdings, scope: str, since: float, identity: tuple[str, ...]
) -> Allocation | None:
    for pool in pools:
        ip = STRATEGIES[pool.strategy](Vacancies(pool, holdings, scope, since), identity)
        if ip is not None:
            return Allocation(ip, pool, None)
    return None


def _early(
    family: Family, pools: Sequence[Pool], holdings: Holdings, scope: str, now: float, cooldown: float
) -> Allocation:
    oldest = longest_resting(pools, holdings, scope)
    if oldest is None or oldest.ready_in(now, cooldown) > 0:
        counted = usage(pools, holdings, scope, now, cooldown)
        raise Exhausted(str(shortage(family, counted, oldest, now, cooldown)))
    return Allocation(oldest.ip, oldest.pool, oldest.rested(now))
