"""Random pools and random lives: what may never happen does not, and what must happen does.

The judge of a pool is a listing by the standard library; the judge of a life is a model that keeps every
address in a dictionary.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from netloom.cni import InvalidConfig
from netloom.ipam import (
    Allocation,
    Exhausted,
    Pool,
    PoolConfig,
    count_free,
    free_addresses,
    parse_pools,
    usage,
    would_allocate,
)
from netloom.ipam.pool import Strategy

from .book import COOLDOWN, Book, every

pytestmark = pytest.mark.unit

STEADY = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)

strategies: st.SearchStrategy[Strategy] = st.sampled_from(("sequential", "random", "embedded"))


@st.composite
def configs(draw: st.DrawFn, v4: int = 22, v6: int = 118) -> PoolConfig:
    """A pool small enough to list. Some leave nothing usable, which is refused."""
    network: IPv4Network | IPv6Network
    if draw(st.booleans()):
        prefix = draw(st.integers(v4, 32))
        first = draw(st.integers(0, 2**16 - 1)) >> (32 - prefix) << (32 - prefix)
        network = IPv4Network((0x0A010000 + first, prefix))
    else:
        prefix = draw(st.integers(v6, 128))
        first = draw(st.integers(0, 2**64 - 1)) >> (128 - prefix) << (128 - prefix)
        network = IPv6Network(((0xFD << 120) + first, prefix))
    inside = st.integers(0, network.num_addresses - 1).map(lambda n: network[n])
    one = inside.map(str)
    run = st.tuples(inside, inside).map(lambda ends: f"{min(ends)}-{max(ends)}")
    subnet = st.tuples(inside, st.integers(prefix, network.max_prefixlen)).map(
        lambda it: str(ip_network(it, strict=False))
    )
    exclude = tuple(draw(st.lists(st.one_of(one, run, subnet), max_size=3)))
    gateway = draw(st.none() | one)
    return PoolConfig(str(network), gateway, exclude, draw(strategies))


def listed(config: PoolConfig) -> list[bytes]:
    """The usable addresses, as slowly and as plainly as can be."""
    network = ip_network(config.cidr)
    found: set[IPv4Address | IPv6Address] = set(network)
    if network.version == 4 and network.prefixlen < 31:
        found -= {network[0], network[-1]}
    if network.version == 6 and network.prefixlen < 127:
        found -= {network[0]}
    if config.gateway is not None:
        found -= {ip_address(config.gateway)}
    for text in config.exclude:
        if "-" in text:
            low, high = (int(ip_address(end)) for end in text.split("-"))
            found = {ip for ip in found if not low <= int(ip) <= high}
        else:
            found -= set(ip_network(text))
    return sorted(ip.packed for ip in found)


def parsed(config: PoolConfig) -> Pool:
    """The pool, if it is a good one; a gateway at a border or an empty pool is tested elsewhere."""
    try:
        (pool,) = parse_pools([config])
    except InvalidConfig as refused:
        assert not listed(config) or "gateway" in refused.msg
        assume(False)
    return pool


@settings(STEADY, max_examples=150)
@given(configs())
def test_a_pool_has_exactly_the_addresses_that_a_listing_has(config: PoolConfig) -> None:
    pool = parsed(config)
    expected = listed(config)
    assert pool.capacity == len(expected)
    assert every(pool) == expected
    network = ip_network(config.cidr)
    around = [ip.packed for ip in network]
    usable = set(expected)
    for ip in around:
        assert (ip in pool) == (ip in usable) == (pool.refusal(ip) is None)
        assert pool.covers(ip)


@settings(STEADY, max_examples=100)
@given(configs(), st.data())
def test_ordinals_and_ranges_name_the_same_addresses(config: PoolConfig, data: st.DataObject) -> None:
    pool = parsed(config)
    expected = listed(config)
    start = data.draw(st.integers(0, pool.capacity - 1))
    stop = data.draw(st.integers(start, pool.capacity))
    found = []
    for low, high in pool.spans(start, stop):
        found += [
            n.to_bytes(pool.width, "big")
            for n in range(int.from_bytes(low, "big"), int.from_bytes(high, "big") + 1)
        ]
    assert found == expected[start:stop]
    network = ip_network(config.cidr)
    ip = network[data.draw(st.integers(0, network.num_addresses - 1))].packed
    later = [it for it in expected if it > ip]
    assert pool.at(pool.ordinal_after(ip)) == (later or expected)[0]


@settings(STEADY, max_examples=60)
@given(st.lists(configs(27, 123), min_size=1, max_size=2), st.data())
def test_counting_and_looking_agree(chosen: list[PoolConfig], data: st.DataObject) -> None:
    pools = [parsed(config) for config in chosen]
    book = Book()
    for pool in pools:
        for number in data.draw(st.lists(st.integers(0, 2**pool.host_bits - 1), max_size=20)):
            ip = (pool.network + number).to_bytes(pool.width, "big")
            at = data.draw(st.sampled_from((None, 0.0, 60.0, 100.0, 200.0)))
            if at is None:
                book.hold([ip])
            else:
                book.release([ip], at=at)
    for pool, counted in zip(pools, usage(pools, book.holdings, "net", 150.0, 100.0), strict=True):
        free = list(free_addresses(pool, book.holdings, "net", now=150.0, cooldown=100.0))
        assert counted.free == len(free)
        assert counted.capacity == counted.held + counted.resting + len(free)
    for pool, counted in zip(pools, usage(pools, book.holdings, "net", 0.0, float("inf")), strict=True):
        free = list(free_addresses(pool, book.holdings, "net"))
        assert counted.free == len(free) == count_free(pool, book.holdings, "net")
    book.connection.close()


class Life:
    """What a node's addresses should be, kept as plainly as can be."""

    def __init__(self, configs: list[PoolConfig], pools: tuple[Pool, ...]) -> None:
        self.families: dict[int, list[bytes]] = {4: [], 6: []}
        for config, pool in zip(configs, pools, strict=True):
            self.families[pool.family] += listed(config)
        self.families = {family: own for family, own in self.families.items() if own}
        self.held: set[bytes] = set()
        self.released: dict[bytes, float] = {}

    def vacant(self, family: int, now: float) -> set[bytes]:
        return {
            ip
            for ip in self.families[family]
            if ip not in self.held and now - self.released.get(ip, float("-inf")) >= COOLDOWN
        }

    def early(self, family: int, now: float) -> set[bytes]:
        """Those that rested longest, if that is long enough."""
        own = {ip: self.released[ip] for ip in self.families[family] if ip in self.released}
        first = min(own.values(), default=now)
        return {ip for ip, at in own.items() if at == first} if now - first >= COOLDOWN / 10 else set()

    def accepts(self, found: tuple[Allocation, ...], now: float) -> None:
        assert [it.pool.family for it in found] == list(self.families)
        for it in found:
            vacant = self.vacant(it.pool.family, now)
            if it.rested is None:
                assert it.ip in vacant
            else:
                assert not vacant
                assert it.ip in self.early(it.pool.family, now)
                assert it.rested == now - self.released[it.ip]
            self.held.add(it.ip)
            self.released.pop(it.ip, None)

    def release(self, ip: bytes, now: float) -> None:
        self.held.remove(ip)
        self.released[ip] = now


steps = st.one_of(
    st.just("add"), st.just("add"), st.integers(0, 99), st.sampled_from((1.0, 13.0, 60.0, 130.0, 500.0))
)  # fmt: skip


@settings(STEADY, max_examples=200)
@given(
    st.integers(28, 32),
    st.none() | st.integers(124, 128),
    st.booleans(),
    strategies,
    st.lists(steps, min_size=5, max_size=60),
)
def test_over_a_whole_life_no_address_is_given_twice_or_too_early_or_refused_without_need(
    v4: int, v6: int | None, second: bool, strategy: Strategy, life: list[str | int | float]
) -> None:
    chosen = [PoolConfig(f"10.1.0.0/{v4}", strategy=strategy)]
    if second:
        chosen.append(PoolConfig("10.0.0.4/30", gateway="10.0.0.5"))
    if v6 is not None:
        chosen.append(PoolConfig(f"fd00::/{v6}", strategy=strategy))
    pools = parse_pools(chosen)
    book, model, now = Book(), Life(chosen, pools), 1000.0
    for step in life:
        if isinstance(step, float):
            now += step
        elif isinstance(step, int):
            if model.held:
                ip = sorted(model.held)[step % len(model.held)]
                model.release(ip, now)
                book.release([ip], at=now)
        else:
            possible = all(model.vacant(family, now) or model.early(family, now) for family in model.families)
            reason = would_allocate(pools, book.holdings, "net", now, COOLDOWN)
            before = book.rows()
            try:
                found = book.attach(pools, now=now, identity=("shop", "web"))
            except Exhausted as exhausted:
                assert not possible
                assert str(reason) == exhausted.reason
                assert book.rows() == before
            else:
                assert possible
                assert reason is None
                model.accepts(found, now)
    book.connection.close()
