"""How long it may take, with room for a slow machine: what grows with a pool shows by orders of magnitude."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from netloom.ipam import Exhausted, Pool, PoolConfig, allocate, free_addresses, usage, would_allocate
from netloom.ipam.pool import Strategy

from .book import COOLDOWN, NOW, Book, every, pool_of, pools_of

pytestmark = pytest.mark.unit

DENSE = pool_of("10.1.0.0/16")


def least_ms(action: Callable[[], object], runs: int = 5) -> float:
    """What the action takes when nothing comes in between."""
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        action()
        taken.append((time.perf_counter() - begun) * 1000)
    return min(taken)


def least_of_many_ms(action: Callable[[], object]) -> float:
    """For an action that is shorter than the turn that another process may get."""
    return least_ms(action, 200)


def try_allocate(book: Book, *pools: Pool) -> object:
    return allocate(
        pools, (), book.holdings, scope="net", now=NOW, cooldown=COOLDOWN, identity=("shop", "web")
    )


@pytest.fixture(scope="module")
def dense() -> Iterator[Book]:
    """A /16 whose first 65,000 addresses are held."""
    book = Book()
    book.hold(every(DENSE)[:65_000])
    yield book
    book.connection.close()


@pytest.mark.parametrize("strategy", ["sequential", "random", "embedded"])
def test_a_pool_of_two_to_the_power_of_125_takes_no_longer_than_any(book: Book, strategy: Strategy) -> None:
    pools = pools_of(PoolConfig("2000::/3", gateway="2000::1", exclude=("2000::/64",), strategy=strategy))
    assert least_of_many_ms(lambda: try_allocate(book, *pools)) < 0.5
    assert least_of_many_ms(lambda: would_allocate(pools, book.holdings, "net", NOW, COOLDOWN)) < 0.5
    assert least_of_many_ms(lambda: usage(pools, book.holdings, "net", NOW, COOLDOWN)) < 0.5


@pytest.mark.parametrize("held", [10, 10_000])
def test_a_dual_stack_allocation_does_not_grow_with_what_is_held(book: Book, held: int) -> None:
    pools = pools_of("10.1.0.0/16", "fd00::/64")
    for pool in pools:
        book.hold(pool.at(ordinal) for ordinal in range(held))
        book.holdings.move_cursor("net", pool.cidr, pool.at(held - 1))
    assert least_of_many_ms(lambda: try_allocate(book, *pools)) < 0.5


def test_a_dense_pool_allocates_from_where_the_turn_is(dense: Book) -> None:
    dense.holdings.move_cursor("net", DENSE.cidr, DENSE.at(64_900))
    assert least_ms(lambda: try_allocate(dense, DENSE)) < 5


def test_a_dense_pool_allocates_when_the_gap_is_as_far_away_as_can_be(dense: Book) -> None:
    def from_the_start() -> None:
        dense.connection.execute("DELETE FROM cursor")
        try_allocate(dense, DENSE)

    assert least_ms(from_the_start) < 50


def test_a_dense_pool_would_allocate(dense: Book) -> None:
    assert least_ms(lambda: would_allocate([DENSE], dense.holdings, "net", NOW, COOLDOWN)) < 50


def test_an_exhausted_pool_says_so(book: Book) -> None:
    book.hold(every(DENSE))

    def refused() -> None:
        with pytest.raises(Exhausted):
            try_allocate(book, DENSE)

    assert least_ms(refused) < 100
    assert least_ms(lambda: would_allocate([DENSE], book.holdings, "net", NOW, COOLDOWN)) < 100


def test_a_pool_of_65536_is_looked_through(dense: Book) -> None:
    found: list[bytes] = []
    assert least_ms(lambda: found.extend(free_addresses(DENSE, dense.holdings, "net"))) < 500
    assert len(found) == 5 * (DENSE.capacity - 65_000)
