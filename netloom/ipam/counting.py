"""The usage of pools: for STATUS, for people, and for the audit, which compares independent counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import randrange

from msgspec import Struct

from .holdings import Holdings, Resting, Vacancies, longest_resting, resting_since
from .pool import Family, Pool, borders, by_family, merged

_TRIES = 4


class PoolUsage(Struct, frozen=True):
    """`free` addresses can be assigned now; they include those whose rest is over.

    `orphaned` are the held addresses of links that are not in the journal.
    """

    cidr: str
    capacity: int
    held: int
    resting: int
    free: int
    orphaned: int = 0


class Shortage(Struct, frozen=True):
    """No pool of a family has a free address. `ready_in`: seconds until one has rested, if one rests."""

    family: Family
    pools: Sequence[PoolUsage]
    ready_in: int | None

    def __str__(self) -> str:
        return f"{self.text}; {self.next}"

    @property
    def text(self) -> str:
        full = ", ".join(
            f"{it.cidr} has {in_words(it.held - it.orphaned, it.resting, it.orphaned)}" for it in self.pools
        )
        return f"no IPv{self.family} address is left: {full}"

    @property
    def next(self) -> str:
        """What to do about it, or to wait for."""
        if self.ready_in is None:
            return "detach something, or give the network another pool"
        return f"the next is ready in {self.ready_in} s"


def usage(
    pools: Sequence[Pool], holdings: Holdings, scope: str, now: float, cooldown: float
) -> list[PoolUsage]:
    since = resting_since(now, cooldown)
    return [_usage(pool, holdings, scope, since) for pool in pools]


def _usage(pool: Pool, holdings: Holdings, scope: str, since: float) -> PoolUsage:
    held = resting = orphaned = 0
    for low, high in pool.spans(0, pool.capacity):
        more_held, more_resting = holdings.tally(scope, low, high, since)
        held += more_held
        resting += more_resting
        orphaned += holdings.orphaned(scope, low, high)
    return PoolUsage(pool.cidr, pool.capacity, held, resting, pool.capacity - held - resting, orphaned)


def would_allocate(
    pools: Sequence[Pool], holdings: Holdings, scope: str, now: float, cooldown: float
) -> Shortage | None:
    """Returns why an ADD would find no address now; None if it would find one of each family.

    A few random tries suffice for a pool that is not nearly full; any other is counted once.
    """
    since = resting_since(now, cooldown)
    for family, own in by_family(pools):
        if any(_has_room(Vacancies(pool, holdings, scope, since)) for pool in own):
            continue
        counted = usage(own, holdings, scope, now, cooldown)
        if any(it.free for it in counted):
            continue
        oldest = longest_resting(own, holdings, scope)
        if oldest is None or oldest.ready_in(now, cooldown) > 0:
            return shortage(family, counted, oldest, now, cooldown)
    return None


def _has_room(vacancies: Vacancies) -> bool:
    pool = vacancies.pool
    return any(vacancies.has(pool.at(randrange(pool.capacity))) for _ in range(_TRIES))


def shortage(
    family: Family, counted: Sequence[PoolUsage], oldest: Resting | None, now: float, cooldown: float
) -> Shortage:
    return Shortage(family, counted, None if oldest is None else math.ceil(oldest.ready_in(now, cooldown)))


def in_words(held: int, resting: int, orphaned: int) -> str:
    """Describes the addresses that are not free. It names orphaned links, which are unexpected."""
    links = "an orphaned link has" if orphaned == 1 else "orphaned links have"
    return f"{held} held and {resting} resting" + (f", and {orphaned} that {links}" if orphaned else "")


def count_free(pool: Pool, holdings: Holdings, scope: str) -> int:
    """Counts `free_addresses` as if no rest ended, at the cost of one step for each row.

    It counts what the rules exclude from the whole range, and then rows one by one. `capacity` and `usage`
    are computed differently, so that `capacity == held + resting + free` is a check that can fail.
    """
    width = pool.width
    size = 1 << pool.host_bits
    last = pool.network + size - 1
    taken_out = [*pool.excluded, *((it, it) for it, _ in borders(width, pool.prefix, pool.network))]
    if pool.gateway is not None:
        gateway = int.from_bytes(pool.gateway, "big")
        taken_out.append((gateway, gateway))
    refused = sum(high - low + 1 for low, high in merged(taken_out))
    since = resting_since(0.0, math.inf)
    entries = holdings.entries(scope, pool.network.to_bytes(width, "big"), last.to_bytes(width, "big"))
    blocked = sum(1 for ip, released in entries if released > since and pool.refusal(ip) is None)
    return size - refused - blocked


def free_addresses(
    pool: Pool, holdings: Holdings, scope: str, *, now: float = 0.0, cooldown: float = math.inf
) -> Iterator[bytes]:
    """Yields each address that an ADD may get, by checking each; for pools of a few thousand.

    It shares neither the arithmetic of `capacity` nor the counting of `usage`, so that
    `capacity == held + resting + len(free)` is a check that can fail. By default no rest ends.
    """
    since = resting_since(now, cooldown)
    width = pool.width
    last = pool.network + (1 << pool.host_bits) - 1
    entries = holdings.entries(scope, pool.network.to_bytes(width, "big"), last.to_bytes(width, "big"))
    blocked = (ip for ip, released in entries if released > since)
    next_blocked = next(blocked, None)
    value = pool.network
    # Exclusions are skipped as a whole: one may have nearly all of 2^64 addresses.
    for low, high in (*pool.excluded, (last + 1, last + 1)):
        for number in range(value, low):
            ip = number.to_bytes(width, "big")
            while next_blocked is not None and next_blocked < ip:
                next_blocked = next(blocked, None)
            if ip != next_blocked and pool.refusal(ip) is None:
                yield ip
        value = high + 1
