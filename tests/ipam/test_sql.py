"""What SQLite is asked: by the key, and never about the other family."""

from __future__ import annotations

import pytest

from netloom.ipam import FREE, HELD, SqlHoldings
from netloom.kernel.values import packed_ip

from .book import Book

pytestmark = pytest.mark.unit

V4 = packed_ip("32.1.13.184"), packed_ip("32.1.13.190")
V6 = packed_ip("2001:db8::"), packed_ip("2001:dbf::")  # the same first bytes


@pytest.fixture
def mixed(book: Book) -> Book:
    """Both families in one scope, with addresses that lie between each other as bytes."""
    book.hold([*V4, *V6, packed_ip("2001:dba::7")])
    book.release([packed_ip("32.1.13.185")], at=50.0)
    book.release([packed_ip("32.1.13.186")], at=40.0)
    book.release([packed_ip("2001:db9::")], at=30.0)
    return book


def test_an_address_is_held_free_or_was_released(mixed: Book) -> None:
    assert mixed.holdings.released_at("net", V4[0]) == HELD
    assert mixed.holdings.released_at("net", packed_ip("32.1.13.187")) == FREE
    assert mixed.holdings.released_at("other", V4[0]) == FREE
    assert mixed.holdings.released_at("net", packed_ip("32.1.13.185")) == 50.0


def test_a_range_has_only_its_own_family(mixed: Book) -> None:
    assert mixed.holdings.tally("net", *V4, 0.0) == (2, 2)
    assert mixed.holdings.tally("net", *V6, 0.0) == (3, 1)
    assert mixed.holdings.longest_resting("net", *V4) == (40.0, packed_ip("32.1.13.186"))
    assert mixed.holdings.longest_resting("net", *V6) == (30.0, packed_ip("2001:db9::"))
    assert list(mixed.holdings.entries("net", *V4)) == [
        (V4[0], HELD),
        (packed_ip("32.1.13.185"), 50.0),
        (packed_ip("32.1.13.186"), 40.0),
        (V4[1], HELD),
    ]
    assert [len(ip) for ip, _ in mixed.holdings.entries("net", *V6)] == [16] * 4


def test_a_tally_leaves_out_what_was_released_at_that_moment_or_before(mixed: Book) -> None:
    assert mixed.holdings.tally("net", *V4, 39.9) == (2, 2)
    assert mixed.holdings.tally("net", *V4, 40.0) == (2, 1)
    assert mixed.holdings.tally("net", *V4, 50.0) == (2, 0)


def test_nothing_of_another_scope_is_in_a_range(mixed: Book) -> None:
    assert mixed.holdings.tally("other", *V4, 0.0) == (0, 0)
    assert mixed.holdings.longest_resting("other", *V4) is None
    assert list(mixed.holdings.entries("other", *V4)) == []


def test_a_cursor_is_where_it_was_moved_last(book: Book) -> None:
    assert book.holdings.cursor("net", "10.1.0.0/24") is None
    for text in ("10.1.0.1", "10.1.0.2"):
        book.holdings.move_cursor("net", "10.1.0.0/24", packed_ip(text))
    assert book.holdings.cursor("net", "10.1.0.0/24") == packed_ip("10.1.0.2")
    assert book.holdings.cursor("other", "10.1.0.0/24") is None


def test_every_question_is_answered_by_the_primary_key(book: Book) -> None:
    asked: list[str] = []
    book.connection.set_trace_callback(asked.append)
    book.holdings.released_at("net", V4[0])
    book.holdings.tally("net", *V4, 0.0)
    book.holdings.longest_resting("net", *V4)
    list(book.holdings.entries("net", *V4))
    book.connection.set_trace_callback(None)
    plans = [
        [detail for *_, detail in book.connection.execute(f"EXPLAIN QUERY PLAN {query}")] for query in asked
    ]
    by_range = "SEARCH address USING PRIMARY KEY (scope=? AND ip>? AND ip<?)"
    assert plans == [
        ["SEARCH address USING PRIMARY KEY (scope=? AND ip=?)"],
        [by_range],
        [by_range, "USE TEMP B-TREE FOR ORDER BY"],
        [by_range],
    ]


def test_what_somebody_else_has_is_held_whatever_a_row_says(mixed: Book) -> None:
    """Such as the host's own address, or one of a container of which the journal lost track."""
    rested, resting, free = map(packed_ip, ("32.1.13.186", "32.1.13.185", "32.1.13.188"))
    holdings = SqlHoldings(mixed.connection, frozenset({rested, resting, free, V4[0]}))
    assert holdings.tally("net", *V4, 45.0) == (5, 0)
    assert holdings.longest_resting("net", *V4) is None
    assert list(holdings.entries("net", *V4)) == [
        (ip, HELD) for ip in sorted({V4[0], V4[1], rested, resting, free})
    ]
    assert holdings.released_at("net", rested) == HELD


def test_of_those_that_somebody_else_has_the_orphaned_are_counted_unless_an_attachment_has_them(
    mixed: Book,
) -> None:
    rested, resting, free = map(packed_ip, ("32.1.13.186", "32.1.13.185", "32.1.13.188"))
    others, attached = frozenset({rested, resting, free}), frozenset(V4)
    every = others | attached
    assert SqlHoldings(mixed.connection, every, every).orphaned("net", *V4) == len(others)
    assert SqlHoldings(mixed.connection, every, frozenset({free})).orphaned("net", *V4) == 1
    assert SqlHoldings(mixed.connection, every).orphaned("net", *V4) == 0
