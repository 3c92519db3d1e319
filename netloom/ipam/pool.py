"""A pool: the addresses that a network may give on this node, as arithmetic.

A pool is never listed: an IPv6 /64 has 2^64 addresses. It is a few ranges of whole numbers, and every
usable address has an ordinal, its place in the order of all of them, so that strategies and searches
need not know about gateways and exclusions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct

from ..cni import InvalidConfig
from ..kernel.values import shown_ip
from .notation import exclusion_of, gateway_of, network_of
from .ranges import Range, merged, span, without
from .reserved import borders, reserved_part

Family: TypeAlias = Literal[4, 6]
Strategy: TypeAlias = Literal["sequential", "random", "embedded"]

_low = itemgetter(0)


class PoolConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `pools` in a network's config.

    The gateway is never handed out; it becomes the container's next hop. An entry of `exclude` is an
    address, a CIDR, or a range such as "10.0.0.5-10.0.0.9".
    """

    cidr: str
    gateway: str | None = None
    exclude: tuple[str, ...] = ()
    strategy: Strategy = "sequential"


class Pool(Struct, frozen=True):
    """A pool whose config was found to be good; only `parse_pools` makes one.

    `usable` are the ranges of addresses that can be handed out, `starts` the ordinal of each range's
    first address, `capacity` how many there are. `excluded` is what the config excludes, merged.
    """

    cidr: str
    family: Family
    prefix: int
    strategy: Strategy
    gateway: bytes | None
    network: int
    excluded: tuple[Range, ...]
    usable: tuple[Range, ...]
    starts: tuple[int, ...]
    capacity: int

    @property
    def width(self) -> int:
        """Bytes of an address."""
        return 4 if self.family == 4 else 16

    @property
    def host_bits(self) -> int:
        return self.width * 8 - self.prefix

    @property
    def low(self) -> int:
        return self.usable[0][0]

    @property
    def high(self) -> int:
        return self.usable[-1][1]

    def __contains__(self, ip: bytes) -> bool:
        """Whether it can be handed out: not only in the CIDR, but usable."""
        value = int.from_bytes(ip, "big")
        place = bisect_right(self.usable, value, key=_low)
        return len(ip) == self.width and place > 0 and value <= self.usable[place - 1][1]

    def covers(self, ip: bytes) -> bool:
        """Whether it is in the CIDR, usable or not."""
        return len(ip) == self.width and int.from_bytes(ip, "big") >> self.host_bits == (
            self.network >> self.host_bits
        )

    def refusal(self, ip: bytes) -> str | None:
        """Why it is never handed out, as the end of a sentence that begins with it.

        Answered from the rules and not from `usable`, so that each can be held against the other.
        """
        if not self.covers(ip):
            return f"is not in {self.cidr}"
        if ip == self.gateway:
            return f"is the gateway of {self.cidr}"
        value = int.from_bytes(ip, "big")
        for border, what in borders(self.width, self.prefix, self.network):
            if value == border:
                return f"is the {what} of {self.cidr}"
        for low, high in self.excluded:
            if low <= value <= high:
                return f"is excluded from {self.cidr}"
        return None

    def at(self, ordinal: int) -> bytes:
        place = bisect_right(self.starts, ordinal) - 1
        return (self.usable[place][0] + ordinal - self.starts[place]).to_bytes(self.width, "big")

    def ordinal_after(self, ip: bytes) -> int:
        """The ordinal of the first usable address behind it, or the first of all if none is."""
        value = int.from_bytes(ip, "big")
        place = bisect_right(self.usable, value, key=_low) - 1
        if place < 0 or len(ip) != self.width:
            return 0
        low, high = self.usable[place]
        return (self.starts[place] + min(value, high) - low + 1) % self.capacity

    def spans(self, start: int, stop: int) -> Iterator[tuple[bytes, bytes]]:
        """The ranges of addresses, first and last, whose ordinals are from `start` to before `stop`."""
        place = bisect_right(self.starts, start) - 1
        while start < stop:
            low, high = self.usable[place]
            first = low + start - self.starts[place]
            last = min(high, first + stop - start - 1)
            yield first.to_bytes(self.width, "big"), last.to_bytes(self.width, "big")
            start += last - first + 1
            place += 1


def parse_pools(configs: Sequence[PoolConfig]) -> tuple[Pool, ...]:
    """The pools of one network. The same config comes with every ADD, so it is read once.

    >>> [pool.capacity for pool in parse_pools([PoolConfig("10.1.0.0/24"), PoolConfig("fd00::/64")])]
    [254, 18446744073709551615]
    """
    return _parsed(tuple(configs))


@lru_cache(maxsize=256)
def _parsed(configs: tuple[PoolConfig, ...]) -> tuple[Pool, ...]:
    if not configs:
        raise InvalidConfig('no pools: give at least one pool, such as {"cidr": "10.1.0.0/24"}')
    pools = tuple(map(_pool, configs))
    for one, other in pairwise(sorted(pools, key=lambda pool: (pool.family, pool.network, pool.prefix))):
        if one.family == other.family and other.network >> one.host_bits == one.network >> one.host_bits:
            raise InvalidConfig(f"pools {one.cidr} and {other.cidr} overlap: an address must be of one pool")
    return pools


def _pool(config: PoolConfig) -> Pool:
    packed, prefix = network_of("pool", config.cidr)
    if "/" not in config.cidr:
        raise InvalidConfig(
            f"pool {config.cidr} has no prefix length: for the one address write {config.cidr}/{prefix}"
        )
    cidr = f"{shown_ip(packed)}/{prefix}"
    if (part := reserved_part(packed, prefix)) is not None:
        raise InvalidConfig(f"pool {cidr} has addresses of {part}: no container can have them")
    family: Family = 4 if len(packed) == 4 else 6
    whole = span(packed, prefix)
    gateway = None if config.gateway is None else gateway_of(config.gateway, cidr, packed, prefix)
    excluded = merged(exclusion_of(text, cidr, packed, whole) for text in config.exclude)
    holes = [*excluded, *((border, border) for border, _ in borders(len(packed), prefix, whole[0]))]
    if gateway is not None:
        holes.append(span(gateway, len(gateway) * 8))
    usable = without(whole, merged(holes))
    if not usable:
        raise InvalidConfig(f"pool {cidr} has no usable address: its gateway and exclusions leave none")
    starts, capacity = [], 0
    for low, high in usable:
        starts.append(capacity)
        capacity += high - low + 1
    return Pool(
        cidr=cidr,
        family=family,
        prefix=prefix,
        strategy=config.strategy,
        gateway=gateway,
        network=whole[0],
        excluded=excluded,
        usable=usable,
        starts=tuple(starts),
        capacity=capacity,
    )


def by_family(pools: Sequence[Pool]) -> list[tuple[Family, list[Pool]]]:
    """IPv4 first. Within a family the order of the config is the order of preference."""
    ordered = sorted(pools, key=_family)
    return [(family, list(own)) for family, own in groupby(ordered, key=_family)]


def _family(pool: Pool) -> Family:
    return pool.family
