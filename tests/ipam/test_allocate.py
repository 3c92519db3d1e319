"""What an attachment gets: both families or nothing, by name or by turn, and what has rested."""

from __future__ import annotations

import pytest

from netloom.cni import InvalidConfig, TryAgainLater
from netloom.cni.errors import PluginFailed, from_code
from netloom.ipam import Exhausted, PoolConfig, SqlHoldings, Taken
from netloom.kernel.values import packed_ip

from .book import COOLDOWN, NOW, Book, every, pool_of, pools_of, shown

pytestmark = pytest.mark.unit

DUAL = pools_of("fd00::/64", "10.1.0.0/29")


def test_ipv4_comes_before_ipv6_whatever_the_order_of_the_pools(book: Book) -> None:
    found = book.attach(DUAL)
    assert shown(found) == ["10.1.0.1", "fd00::1"]
    assert [it.pool for it in found] == [DUAL[1], DUAL[0]]
    assert [it.rested for it in found] == [None, None]


def test_a_network_of_one_family_gives_one_address(book: Book) -> None:
    assert shown(book.attach(pools_of("fd00::/64"))) == ["fd00::1"]


def test_pools_of_a_family_are_used_in_order(book: Book) -> None:
    pools = pools_of("10.2.0.0/31", "10.1.0.0/31")
    assert [shown(book.attach(pools)) for _ in range(4)] == [
        ["10.2.0.0"],
        ["10.2.0.1"],
        ["10.1.0.0"],
        ["10.1.0.1"],
    ]


def test_scopes_do_not_see_each_other(book: Book) -> None:
    pools = pools_of("10.1.0.0/31")
    for scope in ("red", "blue"):
        assert shown(book.attach(pools, scope=scope)) == ["10.1.0.0"]
        assert shown(book.attach(pools, scope=scope)) == ["10.1.0.1"]


def test_requested_addresses_of_a_family_come_instead_of_a_chosen_one(book: Book) -> None:
    found = book.attach(DUAL, "fd00::7", "10.1.0.5", "10.1.0.3")
    assert shown(found) == ["10.1.0.5", "10.1.0.3", "fd00::7"]


def test_a_family_that_nobody_asked_for_by_name_is_still_given(book: Book) -> None:
    assert shown(book.attach(DUAL, "10.1.0.5")) == ["10.1.0.5", "fd00::1"]


def test_an_address_that_is_asked_for_twice_is_given_once(book: Book) -> None:
    assert shown(book.attach(DUAL, "10.1.0.5", "10.1.0.5")) == ["10.1.0.5", "fd00::1"]


def test_a_requested_address_that_another_holds_is_an_error_that_names_it(book: Book) -> None:
    book.attach(DUAL, "10.1.0.5")
    before = book.rows()
    with pytest.raises(Taken, match=r"10\.1\.0\.5") as taken:
        book.attach(DUAL, "fd00::9", "10.1.0.5")
    assert taken.value.code == 101
    assert book.rows() == before


def test_an_address_of_the_hosts_own_is_said_to_be_the_hosts(book: Book) -> None:
    book.holdings = SqlHoldings(book.connection, frozenset({packed_ip("10.1.0.5")}))
    with pytest.raises(Taken, match="in use by the host itself"):
        book.attach(DUAL, "10.1.0.5")


def test_another_plugins_code_101_is_not_taken_for_ours() -> None:
    assert type(from_code(101, "no licence")) is PluginFailed


def test_an_address_of_no_pool_is_not_given_by_any_way(book: Book) -> None:
    for name in ("10.9.0.1", "10.1.0.0", "fd01::1"):
        with pytest.raises(InvalidConfig, match=name):
            book.attach(DUAL, name)
    assert book.rows() == []


def test_a_requested_address_that_rests_is_given_at_once_and_says_so(book: Book) -> None:
    book.release([packed_ip("10.1.0.5"), packed_ip("10.1.0.3")], at=NOW - 4)
    book.release([packed_ip("10.1.0.4")], at=NOW - COOLDOWN)
    found = book.attach(DUAL, "10.1.0.5", "10.1.0.4", "fd00::1")
    assert [it.rested for it in found] == [4.0, None, None]


def test_asking_by_name_does_not_move_the_turn(book: Book) -> None:
    book.attach(DUAL)
    book.attach(DUAL, "10.1.0.5", "fd00::5")
    assert shown(book.attach(DUAL)) == ["10.1.0.2", "fd00::2"]


class TestFamilies:
    def test_exhausted_ipv6_alone_takes_nothing_of_ipv4(self, book: Book) -> None:
        pools = pools_of("10.1.0.0/24", "fd00::/127")
        book.hold(every(pools[1]))
        before = book.rows()
        with pytest.raises(Exhausted, match="no IPv6 address is left"):
            book.attach(pools)
        assert book.rows() == before

    def test_exhausted_ipv4_alone_takes_nothing_of_ipv6(self, book: Book) -> None:
        pools = pools_of("10.1.0.0/31", "fd00::/64")
        book.hold(every(pools[0]))
        before = book.rows()
        with pytest.raises(Exhausted, match="no IPv4 address is left"):
            book.attach(pools)
        assert book.rows() == before


class TestRest:
    POOLS = pools_of("10.1.0.0/30")
    FIRST, SECOND = every(POOLS[0])

    def test_a_released_address_is_not_given_before_its_rest_is_over(self, book: Book) -> None:
        book.release([self.FIRST], at=NOW - COOLDOWN + 0.001)
        assert shown(book.attach(self.POOLS)) == ["10.1.0.2"]

    def test_it_is_given_when_its_rest_is_over(self, book: Book) -> None:
        book.release([self.FIRST], at=NOW - COOLDOWN)
        (found,) = book.attach(self.POOLS)
        assert (found.ip, found.rested) == (self.FIRST, None)

    def test_the_rest_is_known_to_whoever_opens_the_journal_next(self, book: Book) -> None:
        book.hold([self.SECOND])
        book.release([self.FIRST], at=NOW)
        again = Book()
        again.connection.deserialize(book.connection.serialize())
        with pytest.raises(Exhausted):
            again.attach(self.POOLS)
        again.connection.close()

    def test_with_nothing_else_left_the_longest_resting_one_goes_early_and_says_so(self, book: Book) -> None:
        book.release([self.FIRST], at=NOW - 20)
        book.release([self.SECOND], at=NOW - 30)
        found = [*book.attach(self.POOLS), *book.attach(self.POOLS)]
        assert [(it.ip, it.rested) for it in found] == [(self.SECOND, 30.0), (self.FIRST, 20.0)]

    def test_a_free_address_of_a_later_pool_goes_before_a_resting_one(self, book: Book) -> None:
        book.hold([self.FIRST])
        book.release([self.SECOND], at=NOW - COOLDOWN + 1)
        (found,) = book.attach(pools_of("10.1.0.0/30", "10.2.0.0/30"))
        assert shown([found]) == ["10.2.0.1"]

    def test_the_longest_resting_one_is_looked_for_in_every_pool(self, book: Book) -> None:
        pools = pools_of("10.1.0.0/31", PoolConfig("10.2.0.0/29", exclude=("10.2.0.3",)))
        book.release(every(pools[0]), at=NOW - 40)
        book.release(every(pools[1]), at=NOW - 50)
        book.release([packed_ip("10.2.0.5")], at=NOW - 60)
        book.release([packed_ip("10.2.0.3")], at=NOW - 70)
        (found,) = book.attach(pools)
        assert (shown([found]), found.pool, found.rested) == (["10.2.0.5"], pools[1], 60.0)

    def test_a_tenth_of_the_rest_is_the_least(self, book: Book) -> None:
        book.hold([self.SECOND])
        book.release([self.FIRST], at=NOW - 12.9)
        with pytest.raises(Exhausted, match="the next is ready in 1 s"):
            book.attach(self.POOLS)
        (found,) = book.attach(self.POOLS, now=NOW + 0.1 + 1e-6)
        assert found.ip == self.FIRST
        assert found.rested == pytest.approx(13.0)

    def test_a_release_in_the_future_counts_as_one_of_now(self, book: Book) -> None:
        book.hold([self.SECOND])
        book.release([self.FIRST], at=NOW + 1e6)
        with pytest.raises(Exhausted, match="the next is ready in 13 s"):
            book.attach(self.POOLS)
        (found,) = book.attach(self.POOLS, "10.1.0.1")
        assert found.rested == 0.0

    @pytest.mark.parametrize("released", [NOW - 1, NOW, NOW + 5])
    def test_without_a_cooldown_nothing_rests_and_the_held_stay_held(
        self, book: Book, released: float
    ) -> None:
        book.hold([self.SECOND])
        book.release([self.FIRST], at=released)
        (found,) = book.attach(self.POOLS, cooldown=0.0)
        assert (found.ip, found.rested) == (self.FIRST, None)
        with pytest.raises(Exhausted):
            book.attach(self.POOLS, cooldown=0.0)


class TestExhaustion:
    def test_it_says_which_pools_how_many_and_how_long(self, book: Book) -> None:
        pools = pools_of("10.1.0.0/29", "10.2.0.0/31")
        book.hold(every(pools[0])[:4] + every(pools[1]))
        book.release(every(pools[0])[4:], at=NOW - 6)
        with pytest.raises(Exhausted) as exhausted:
            book.attach(pools)
        assert exhausted.value.reason == (
            "no IPv4 address is left: 10.1.0.0/29 has 4 held and 2 resting, "
            "10.2.0.0/31 has 2 held and 0 resting; the next is ready in 7 s"
        )
        assert exhausted.value.code == 11
        assert isinstance(exhausted.value, TryAgainLater)

    def test_with_none_resting_it_says_what_to_do(self, book: Book) -> None:
        pools = pools_of("10.1.0.0/31")
        book.hold(every(pools[0]))
        with pytest.raises(Exhausted, match="detach something, or give the network another pool"):
            book.attach(pools)

    def test_what_is_held_outside_of_a_pool_that_shrank_does_not_fill_it(self, book: Book) -> None:
        book.hold(every(pool_of("10.1.0.0/29")))
        book.hold(every(pool_of("10.1.0.16/28")))
        smaller = pools_of(PoolConfig("10.1.0.0/28", exclude=("10.1.0.0/29",)))
        given = [it for _ in range(7) for it in shown(book.attach(smaller))]
        assert given == [f"10.1.0.{n}" for n in range(8, 15)]
        with pytest.raises(Exhausted, match="has 7 held and 0 resting"):
            book.attach(smaller)
