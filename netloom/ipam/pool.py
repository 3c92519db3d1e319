"""Pools and their ranges of usable addresses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct

from ..cni import InvalidConfig
from ..cni.names import shortened
from ..kernel.errors import InvalidObject
from ..kernel.values import packed_cidr, packed_ip, packed_network, shown_ip

Range: TypeAlias = tuple[int, int]


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Returns the same numbers in as few ranges as possible, in order.

    >>> merged([(7, 9), (1, 3), (4, 5)])
    ((1, 5), (7, 9))
    """
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def without(whole: Range, holes: Iterable[Range]) -> tuple[Range, ...]:
    """Returns the rest of a range without its holes, which are merged ranges within it.

    >>> without((0, 9), [(0, 0), (4, 5)])
    ((1, 3), (6, 9))
    """
    low, high = whole
    left: list[Range] = []
    for first, last in holes:
        if low < first:
            left.append((low, first - 1))
        low = last + 1
    if low <= high:
        left.append((low, high))
    return tuple(left)


def span(packed: bytes, prefix: int) -> Range:
    """Returns the first and the last number of a network.

    >>> span(bytes([0, 0, 1, 0]), 24)
    (256, 511)
    """
    first = int.from_bytes(packed, "big")
    return first, first | ((1 << (len(packed) * 8 - prefix)) - 1)


_RESERVED = (
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "class E and broadcast"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4 written as IPv6"),
    ("fd6e:6574:6c6f:6f6d::/64", "netloom's own, on every node"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
)


_SPANS = tuple(
    (len(packed), *span(packed, prefix), f"{cidr} ({what})")
    for cidr, what in _RESERVED
    for packed, prefix in (packed_network(cidr),)
)


def reserved_part(packed: bytes, prefix: int) -> str | None:
    """Names the reserved network that overlaps a network, for an error's text; None if none does.

    >>> reserved_part(bytes([126, 0, 0, 0]), 7)
    '127.0.0.0/8 (loopback)'
    """
    low, high = span(packed, prefix)
    for size, first, last, name in _SPANS:
        if size == len(packed) and first <= high and low <= last:
            return name
    return None


def borders(width: int, prefix: int, network: int) -> tuple[tuple[int, str], ...]:
    """Returns the addresses at a network's ends that have a special meaning, for a width in bytes.

    RFC 3021 (/31) and RFC 6164 (/127) give them to hosts, and a single address has no ends.
    """
    if width == 4 and prefix < 31:
        return (network, "network address"), (network + (1 << (32 - prefix)) - 1, "broadcast address")
    if width == 16 and prefix < 127:
        return ((network, "subnet-router anycast address"),)
    return ()


Family: TypeAlias = Literal[4, 6]
Strategy: TypeAlias = Literal["sequential", "random", "embedded"]

_low = itemgetter(0)


class PoolConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `pools` in a network's config.

    The gateway is never assigned; it becomes the container's next hop. An entry of `exclude` is an
    address, a CIDR, or a range such as "10.0.0.5-10.0.0.9".
    """

    cidr: str
    gateway: str | None = None
    exclude: tuple[str, ...] = ()
    strategy: Strategy = "sequential"


class Pool(Struct, frozen=True):
    """A pool with a valid config; only `parse_pools` creates one.

    `usable` are the ranges of addresses that can be assigned, `starts` the ordinal of each range's first
    address, `capacity` their number. `excluded` are the config's exclusions, merged.
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
        """The length of an address in bytes."""
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
        """Whether the address can be assigned: it is in the CIDR and usable."""
        value = int.from_bytes(ip, "big")
        place = bisect_right(self.usable, value, key=_low)
        return len(ip) == self.width and place > 0 and value <= self.usable[place - 1][1]

    def covers(self, ip: bytes) -> bool:
        """Whether the address is in the CIDR, usable or not."""
        return len(ip) == self.width and int.from_bytes(ip, "big") >> self.host_bits == (
            self.network >> self.host_bits
        )

    def refusal(self, ip: bytes) -> str | None:
        """Returns why the address is never assigned, as the end of a sentence that begins with it.

        It uses the rules and not `usable`, so that each can be checked against the other.
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
        """Returns the ordinal of the next usable address, or of the first one after the last."""
        value = int.from_bytes(ip, "big")
        place = bisect_right(self.usable, value, key=_low) - 1
        if place < 0 or len(ip) != self.width:
            return 0
        low, high = self.usable[place]
        return (self.starts[place] + min(value, high) - low + 1) % self.capacity

    def spans(self, start: int, stop: int) -> Iterator[tuple[bytes, bytes]]:
        """Yields the ranges of addresses (first, last) with ordinals from `start` to before `stop`."""
        place = bisect_right(self.starts, start) - 1
        while start < stop:
            low, high = self.usable[place]
            first = low + start - self.starts[place]
            last = min(high, first + stop - start - 1)
            yield first.to_bytes(self.width, "big"), last.to_bytes(self.width, "big")
            start += last - first + 1
            place += 1


def parse_pools(configs: Sequence[PoolConfig]) -> tuple[Pool, ...]:
    """Parses the pools of one network. Every ADD has the same config, so the result is cached.

    >>> [pool.capacity for pool in parse_pools([PoolConfig("10.1.0.0/24"), PoolConfig("fd00::/64")])]
    [254, 18446744073709551615]
    """
    return _parsed(tuple(configs))


@lru_cache(maxsize=256)
def _parsed(configs: tuple[PoolConfig, ...]) -> tuple[Pool, ...]:
    if not configs:
        raise InvalidConfig('no pools: configure at least one pool, such as {"cidr": "10.1.0.0/24"}')
    pools = tuple(map(_pool, configs))
    for one, other in pairwise(sorted(pools, key=lambda pool: (pool.family, pool.network, pool.prefix))):
        if one.family == other.family and other.network >> one.host_bits == one.network >> one.host_bits:
            raise InvalidConfig(
                f"pools {one.cidr} and {other.cidr} overlap: an address must belong to one pool"
            )
    return pools


def _pool(config: PoolConfig) -> Pool:
    packed, prefix = network_of("pool", config.cidr)
    if "/" not in config.cidr:
        raise InvalidConfig(
            f"pool {config.cidr} has no prefix length: for a single address write {config.cidr}/{prefix}"
        )
    cidr = f"{shown_ip(packed)}/{prefix}"
    if (part := reserved_part(packed, prefix)) is not None:
        raise InvalidConfig(f"pool {cidr} has addresses of {part}, which containers cannot have")
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
    """Groups pools by family, IPv4 first. Within a family, the order of the config is the preference."""
    ordered = sorted(pools, key=_family)
    return [(family, list(own)) for family, own in groupby(ordered, key=_family)]


def _family(pool: Pool) -> Family:
    return pool.family


def network_of(what: str, text: str) -> tuple[bytes, int]:
    """Parses a network; without a prefix length, it has all bits. `what` begins the text of an error."""
    try:
        packed, prefix = packed_cidr(text)
    except InvalidObject as cause:
        raise InvalidConfig(
            f"{what} {shortened(text)!r} is not a network such as 10.1.0.0/24: {cause}",
            discreet=f"{what.rstrip(':')} is not a network such as 10.1.0.0/24",
        ) from None
    bits = len(packed) * 8
    value = int.from_bytes(packed, "big")
    meant = value >> (bits - prefix) << (bits - prefix)
    if value != meant:
        network = f"{shown_ip(meant.to_bytes(len(packed), 'big'))}/{prefix}"
        raise InvalidConfig(
            f"{what} {text} has bits set after its prefix: for the network write {network}, "
            f"for the single address {shown_ip(packed)}/{bits}"
        )
    return packed, prefix


def gateway_of(text: str, cidr: str, packed: bytes, prefix: int) -> bytes:
    gateway = _address(f"gateway of pool {cidr}", text)
    low, high = span(packed, prefix)
    value = int.from_bytes(gateway, "big")
    if len(gateway) != len(packed):
        raise InvalidConfig(f"gateway {text} is not of the family of its pool {cidr}")
    if not low <= value <= high:
        raise InvalidConfig(f"gateway {text} is not in its pool {cidr}: choose one that is, or omit it")
    for border, meaning in borders(len(packed), prefix, low):
        if value == border:
            raise InvalidConfig(f"gateway {text} is the {meaning} of its pool {cidr}")
    return gateway


def exclusion_of(text: str, cidr: str, packed: bytes, whole: Range) -> Range:
    """Parses an address, a network, or a range with a dash. One outside the pool must be a typo."""
    what = f"exclude of pool {cidr}:"
    head, dash, tail = text.partition("-")
    if dash:
        first, last = _address(what, head.strip()), _address(what, tail.strip())
        low, high = int.from_bytes(first, "big"), int.from_bytes(last, "big")
        if len(first) != len(last) or low > high:
            wrong = "does not run from an address to a later one"
            raise InvalidConfig(f"{what} {shortened(text)!r} {wrong}", discreet=f"{what} a range {wrong}")
    else:
        first, prefix = network_of(what, text)
        low, high = span(first, prefix)
    if len(first) != len(packed) or low < whole[0] or high > whole[1]:
        wrong = "is not in the pool, or not all of it"
        raise InvalidConfig(f"{what} {shortened(text)!r} {wrong}", discreet=f"{what} an entry {wrong}")
    return low, high


def _address(what: str, text: str) -> bytes:
    try:
        return packed_ip(text)
    except InvalidObject:
        raise InvalidConfig(
            f"{what} {shortened(text)!r} is not an IP address",
            discreet=f"{what.rstrip(':')} is not an IP address",
        ) from None
