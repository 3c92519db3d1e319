"""How full pools are: the same answer by counting and by looking."""

from __future__ import annotations

import pytest

from netloom.ipam import Exhausted, PoolConfig, PoolUsage, free_addresses, usage, would_allocate
from netloom.kernel.values import packed_ip, shown_ip

from .book import COOLDOWN, NOW, Book, every, pool_of, pools_of

pytestmark = pytest.mark.unit


def test_usage_counts_held_resting_and_free_of_each_pool(book: Book) -> None:
    pools = pools_of(PoolConfig("10.1.0.0/28", "10.1.0.1", ("10.1.0.8/30",)), "fd00::/64", "10.2.0.0/31")
    book.hold(map(packed_ip, ("10.1.0.2", "10.1.0.3", "fd00::5", "10.2.0.0")))
    book.release([packed_ip("10.1.0.4")], at=NOW - 1)
    book.release([packed_ip("10.1.0.5")], at=NOW - COOLDOWN)
    book.hold([packed_ip("10.1.0.6")], scope="other")
    assert usage(pools, book.holdings, "net", NOW, COOLDOWN) == [
        PoolUsage("10.1.0.0/28", 9, held=2, resting=1, free=6),
        PoolUsage("fd00::/64", 2**64 - 1, held=1, resting=0, free=2**64 - 2),
        PoolUsage("10.2.0.0/31", 2, held=1, resting=0, free=1),
    ]


def test_what_is_not_usable_is_in_no_count(book: Book) -> None:
    pools = pools_of(PoolConfig("10.1.0.0/28", "10.1.0.1", ("10.1.0.8/30",)))
    book.hold(map(packed_ip, ("10.1.0.0", "10.1.0.1", "10.1.0.9", "10.1.0.15", "10.1.0.16")))
    assert usage(pools, book.holdings, "net", NOW, COOLDOWN) == [PoolUsage("10.1.0.0/28", 9, 0, 0, 9)]


def test_free_addresses_are_those_without_a_row_unless_it_is_said_when(book: Book) -> None:
    pool = pool_of("10.1.0.0/29", "10.1.0.1")
    book.hold([packed_ip("10.1.0.2"), packed_ip("10.1.0.7")])
    book.release([packed_ip("10.1.0.4")], at=NOW - COOLDOWN)
    bare = free_addresses(pool, book.holdings, "net")
    assert list(map(shown_ip, bare)) == ["10.1.0.3", "10.1.0.5", "10.1.0.6"]
    timed = free_addresses(pool, book.holdings, "net", now=NOW, cooldown=COOLDOWN)
    assert list(map(shown_ip, timed)) == ["10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6"]


def test_the_free_addresses_of_a_huge_pool_begin_at_once(book: Book) -> None:
    found = free_addresses(pool_of("fd00::/64", "fd00::1"), book.holdings, "net")
    assert shown_ip(next(found)) == "fd00::2"


def test_the_free_addresses_of_a_huge_pool_with_nearly_all_excluded_also_end_at_once(book: Book) -> None:
    pool = pool_of("fd00::/64", "fd00::1", ("fd00::3", "fd00::6-fd00::ffff:ffff:ffff:fffd"))
    book.hold([packed_ip("fd00::4"), packed_ip("fd00::8"), packed_ip("fd00::ffff:ffff:ffff:fffe")])
    found = free_addresses(pool, book.holdings, "net")
    assert list(map(shown_ip, found)) == ["fd00::2", "fd00::5", "fd00::ffff:ffff:ffff:ffff"]


@pytest.mark.parametrize("cidr", ["10.1.0.0/30", "10.1.0.0/20", "fd00::/64", "fd00::/126"])
def test_a_pool_with_room_would_allocate(book: Book, cidr: str) -> None:
    pools = pools_of(cidr)
    book.hold([pools[0].at(0)])
    assert would_allocate(pools, book.holdings, "net", NOW, COOLDOWN) is None


def test_one_address_left_is_enough(book: Book) -> None:
    pools = pools_of("10.1.0.0/20", "fd00::/120")
    book.hold(every(pools[0])[:-1] + every(pools[1])[1:])
    for _ in range(20):
        assert would_allocate(pools, book.holdings, "net", NOW, COOLDOWN) is None


def test_what_would_fail_says_what_the_add_says(book: Book) -> None:
    pools = pools_of("10.1.0.0/24", "fd00::/126")
    book.hold(every(pools[1])[:2])
    book.release(every(pools[1])[2:], at=NOW - 3)
    with pytest.raises(Exhausted) as exhausted:
        book.attach(pools)
    assert str(would_allocate(pools, book.holdings, "net", NOW, COOLDOWN)) == exhausted.value.reason
    assert would_allocate(pools, book.holdings, "net", NOW + 10, COOLDOWN) is None


def test_asking_changes_nothing(book: Book) -> None:
    pools = pools_of("10.1.0.0/24", "fd00::/126")
    book.hold(every(pools[1]))
    before = book.rows()
    would_allocate(pools, book.holdings, "net", NOW, COOLDOWN)
    usage(pools, book.holdings, "net", NOW, COOLDOWN)
    list(free_addresses(pools[0], book.holdings, "net"))
    assert book.rows() == before
