"""Tables: as wide as the terminal, and nothing of them is cut."""

from __future__ import annotations

import pytest

from netloom.cli.terminal.tables import laid_out

pytestmark = pytest.mark.unit

ROWS = [
    ["WHEN", "VERB", "CONTAINER", "OUTCOME"],
    ["02:13:00", "ADD", "3f2a9c813f2a", "code 11: no IPv4 address is left: 10.78.0.0/29 has 6 held"],
    ["02:13:01", "DEL", "3f2a9c813f2a", "done"],
]


def test_without_a_width_each_row_is_a_line() -> None:
    lines = laid_out(ROWS)
    assert len(lines) == 3
    assert lines[1].endswith("has 6 held")


@pytest.mark.parametrize("width", [20, 30, 45, 60, 80])
def test_no_word_is_lost_and_no_line_is_wider_than_it_may_be(width: int) -> None:
    lines = laid_out(ROWS, width)
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() == " ".join(cell for row in ROWS for cell in row).split()


def test_a_last_column_with_enough_room_is_wrapped_below_its_own_title() -> None:
    head, first, second, *_ = laid_out(ROWS, 70)
    assert head.index("OUTCOME") == first.index("code 11") == len(second) - len(second.lstrip())


def test_columns_without_room_go_on_below() -> None:
    assert laid_out([["network", "3f2a9c813f2a", "10.78.0.2", "60s"]], 24) == [
        "network  3f2a9c813f2a",
        "    10.78.0.2  60s",
    ]


def test_a_name_is_never_broken() -> None:
    name = "c" * 64
    assert name in laid_out([["container", name]], 40)[1]


def test_a_column_in_which_nothing_stands_takes_no_room() -> None:
    assert laid_out([["a", "b" * 8, ""], ["c", "d", ""]], 11) == ["a  bbbbbbbb", "c  d"]


def test_a_table_without_rows_has_no_lines() -> None:
    assert laid_out([], 80) == []
