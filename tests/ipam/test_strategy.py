"""How addresses are chosen: in turn, by chance, or by who asks."""

from __future__ import annotations

import pytest

from netloom.ipam import Exhausted, Pool, PoolConfig, parse_pools
from netloom.ipam.pool import Strategy
from netloom.ipam.strategy import embedded, fnv1a
from netloom.kernel.values import packed_ip, shown_ip

from .book import NOW, Book, every, pools_of, shown

pytestmark = pytest.mark.unit


def of(cidr: str, strategy: Strategy, *exclude: str) -> tuple[Pool, ...]:
    return parse_pools([PoolConfig(cidr, exclude=exclude, strategy=strategy)])


class TestSequential:
    def test_it_goes_round_and_skips_what_may_not_be_given(self, book: Book) -> None:
        pools = pools_of(PoolConfig("10.1.0.0/28", gateway="10.1.0.1", exclude=("10.1.0.4-10.1.0.6",)))
        book.hold([packed_ip("10.1.0.8")])
        book.release([packed_ip("10.1.0.10")], at=NOW)
        given = [it for _ in range(8) for it in shown(book.attach(pools))]
        assert given == [f"10.1.0.{n}" for n in (2, 3, 7, 9, 11, 12, 13, 14)]

    def test_an_address_that_came_back_waits_until_the_turn_is_round(self, book: Book) -> None:
        pools = pools_of("10.1.0.0/29")
        first, second = book.attach(pools)[0].ip, book.attach(pools)[0].ip
        book.connection.execute("DELETE FROM address")
        given = [book.attach(pools)[0].ip for _ in range(6)]
        assert given == [*every(pools[0])[2:], first, second]

    def test_it_wraps_at_the_end_of_ipv6_too(self, book: Book) -> None:
        pools = pools_of("fd00::/64")
        book.holdings.move_cursor("net", "fd00::/64", packed_ip("fd00::ffff:ffff:ffff:fffe"))
        assert shown(book.attach(pools)) == ["fd00::ffff:ffff:ffff:ffff"]
        assert shown(book.attach(pools)) == ["fd00::1"]

    @pytest.mark.parametrize(
        ("cursor", "expected"),
        [
            ("10.0.0.9", "10.1.0.3"),  # of a pool that began earlier
            ("10.1.0.1", "10.1.0.3"),
            ("10.1.0.4", "10.1.0.8"),  # excluded since
            ("10.1.0.14", "10.1.0.3"),
            ("10.9.0.9", "10.1.0.3"),
            ("a01:8::", "10.1.0.3"),
        ],
    )
    def test_a_cursor_that_the_pool_no_longer_has_does_no_harm(
        self, book: Book, cursor: str, expected: str
    ) -> None:
        pools = of("10.1.0.0/28", "sequential", "10.1.0.0-10.1.0.2", "10.1.0.4/30")
        book.holdings.move_cursor("net", "10.1.0.0/28", packed_ip(cursor))
        assert shown(book.attach(pools)) == [expected]

    def test_each_pool_and_each_scope_has_its_own_turn(self, book: Book) -> None:
        one, other = pools_of("10.1.0.0/24"), pools_of("10.2.0.0/24")
        assert shown(book.attach(one)) == ["10.1.0.1"]
        assert shown(book.attach(other)) == ["10.2.0.1"]
        assert shown(book.attach(one, scope="red")) == ["10.1.0.1"]
        assert shown(book.attach(one)) == ["10.1.0.2"]

    @pytest.mark.parametrize("gap", [0, 1, 63, 64, 65, 100, 253])
    @pytest.mark.parametrize("last", [0, 62, 63, 64, 200, 253])
    def test_the_one_gap_of_a_full_pool_is_found_from_wherever_the_turn_is(
        self, book: Book, gap: int, last: int
    ) -> None:
        pools = pools_of("10.1.0.0/24")
        addresses = every(pools[0])
        book.hold(ip for ip in addresses if ip != addresses[gap])
        book.holdings.move_cursor("net", "10.1.0.0/24", addresses[last])
        assert book.attach(pools)[0].ip == addresses[gap]


class TestRandom:
    def test_it_gives_every_address_once_and_then_says_that_none_is_left(self, book: Book) -> None:
        pools = of("10.1.0.0/26", "random", "10.1.0.7", "10.1.0.20-10.1.0.29")
        given = [book.attach(pools)[0].ip for _ in range(pools[0].capacity)]
        assert sorted(given) == every(pools[0])
        with pytest.raises(Exhausted):
            book.attach(pools)

    def test_it_does_not_go_in_sequence(self, book: Book) -> None:
        pools = of("fd00::/64", "random")
        given = [book.attach(pools)[0].ip for _ in range(20)]
        assert given != sorted(given)
        assert len({ip[8:12] for ip in given}) > 10

    def test_it_moves_no_cursor(self, book: Book) -> None:
        book.attach(of("fd00::/64", "random"))
        assert book.holdings.cursor("net", "fd00::/64") is None


class TestEmbedded:
    WHO = ("shop", "web", "nginx")

    def test_the_same_identity_has_the_same_address_but_for_the_slot(self, book: Book) -> None:
        pools = of("fd00::/64", "embedded")
        given = [shown(book.attach(pools, identity=self.WHO))[0] for _ in range(16)]
        assert sorted(given) == [f"fd00::9767:bd2a:92d3:c8{slot:x}" for slot in range(16)]

    def test_it_is_the_same_on_every_node(self, book: Book) -> None:
        (found,) = book.attach(of("fd00::/64", "embedded"), identity=self.WHO)
        assert shown_ip(found.ip)[:-1] == "fd00::9767:bd2a:92d3:c8"

    def test_when_all_slots_are_taken_it_is_any_address(self, book: Book) -> None:
        pools = of("fd00::/64", "embedded")
        given = {book.attach(pools, identity=self.WHO)[0].ip for _ in range(40)}
        assert len(given) == 40
        assert all(ip in pools[0] for ip in given)

    def test_ipv4_with_a_byte_of_host_part_embeds_too(self, book: Book) -> None:
        pools = of("10.1.0.0/16", "embedded")
        given = [book.attach(pools, identity=self.WHO)[0].ip for _ in range(16)]
        assert len({ip[:3] + bytes([ip[3] >> 4]) for ip in given}) == 1

    @pytest.mark.parametrize("cidr", ["10.1.0.0/29", "fd00::/125", "fd00::/128", "10.1.0.0/32"])
    def test_a_pool_without_room_for_an_identity_gives_what_it_has(self, book: Book, cidr: str) -> None:
        pools = of(cidr, "embedded")
        given = [book.attach(pools, identity=self.WHO)[0].ip for _ in range(pools[0].capacity)]
        assert sorted(given) == every(pools[0])

    def test_a_small_pool_is_given_to_its_last_address(self, book: Book) -> None:
        pools = of("10.1.0.0/24", "embedded", "10.1.0.64/26")
        given = [book.attach(pools, identity=self.WHO)[0].ip for _ in range(pools[0].capacity)]
        assert sorted(given) == every(pools[0])
        with pytest.raises(Exhausted):
            book.attach(pools, identity=self.WHO)

    def test_without_an_identity_it_is_any_address(self, book: Book) -> None:
        pools = of("fd00::/64", "embedded")
        assert len({book.attach(pools)[0].ip[:12] for _ in range(10)}) == 10

    @pytest.mark.parametrize(
        ("host_bits", "fields", "nibbles"),
        [
            (64, 3, (5, 5, 5)),
            (80, 3, (7, 6, 6)),
            (48, 3, (4, 4, 3)),
            (32, 3, (3, 2, 2)),
            (32, 1, (7,)),
            (64, 2, (8, 7)),
            (66, 3, (5, 5, 5)),
            (16, 3, (1, 1, 1)),
        ],
    )
    def test_the_fields_share_the_nibbles(
        self, host_bits: int, fields: int, nibbles: tuple[int, ...]
    ) -> None:
        """Changing one field changes its own nibbles and no other."""
        who = ["shop", "web", "nginx"][:fields]
        base = embedded(tuple(who), host_bits)
        assert base is not None
        assert base < 1 << host_bits
        assert base & 0xF == 0
        behind = 1
        for place in reversed(range(fields)):
            seen = 0
            for number in range(64):
                other = embedded((*who[:place], f"{number} other", *who[place + 1 :]), host_bits)
                assert other is not None
                seen |= other ^ base
            assert seen == ((1 << 4 * nibbles[place]) - 1) << 4 * behind
            behind += nibbles[place]

    def test_with_less_than_a_nibble_for_each_field_all_of_them_still_count(self) -> None:
        found = {embedded(("shop", "web", f"image-{number}"), 8) for number in range(100)}
        assert found == {nibble << 4 for nibble in range(16)}

    def test_a_host_part_wider_than_the_hash_stays_within_its_bits(self) -> None:
        assert embedded(("one",), 120) == fnv1a("one") << 4

    def test_names_that_differ_in_the_last_letter_differ_in_the_address(self) -> None:
        assert len({embedded((f"web-{number}",), 24) for number in range(10)}) == 10

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
    )
    def test_the_hash_is_the_published_one(self, text: str, expected: int) -> None:
        assert fnv1a(text) == expected

    def test_text_that_is_no_unicode_has_a_hash(self) -> None:
        assert fnv1a("\udcff") != fnv1a("")
