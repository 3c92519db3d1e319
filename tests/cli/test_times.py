"""Times as people write them."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime

import pytest

from netloom.api.times import duration_of, shown, time_at
from netloom.cli.arguments import point_in_time, time_or_duration

pytestmark = pytest.mark.unit

# The night of a Monday, far from any change of clocks.
NOW = datetime(2026, 11, 16, 3, 0, 0).timestamp()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("02:13", datetime(2026, 11, 16, 2, 13)),
        ("2:13", datetime(2026, 11, 16, 2, 13)),
        ("02:13:07", datetime(2026, 11, 16, 2, 13, 7)),
        ("02:13:07.5", datetime(2026, 11, 16, 2, 13, 7, 500000)),
        ("2026-11-16 02:13", datetime(2026, 11, 16, 2, 13)),
        ("2026-11-16T02:13:07", datetime(2026, 11, 16, 2, 13, 7)),
        ("2026-11-16", datetime(2026, 11, 16)),
        ("2026-11-16T02:13:00Z", datetime(2026, 11, 16, 2, 13, tzinfo=UTC)),
        ("2026-11-16 02:13+00:00", datetime(2026, 11, 16, 2, 13, tzinfo=UTC)),
        (" 02:13 ", datetime(2026, 11, 16, 2, 13)),
        ("@1700000000.5", datetime.fromtimestamp(1700000000.5)),
        ("1700000000.5", datetime.fromtimestamp(1700000000.5)),
        ("999999999", datetime.fromtimestamp(999999999)),
        ("20261116", datetime(2026, 11, 16)),
    ],
)
def test_a_time_of_any_form_is_understood(text: str, meant: datetime) -> None:
    assert time_at(text, NOW) == meant.timestamp()


def test_a_clock_that_has_not_shown_so_today_was_yesterdays() -> None:
    assert time_at("03:01", NOW) == datetime(2026, 11, 15, 3, 1).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m ago", 600), ("1h30m ago", 5400), ("1h 30m ago", 5400), ("2 d ago", 172800), ("500ms ago", 0.5)],
)
def test_a_length_before_now_is_understood(text: str, seconds: float) -> None:
    assert time_at(text, NOW) == NOW - seconds


def test_seconds_since_1970_and_now_are_understood() -> None:
    assert (time_at("@1700000000.5", NOW), time_at("now", NOW)) == (1700000000.5, NOW)


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "02:60", "10m", "ago", "-5m ago", "2026-13-01", "@", "@x"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert time_at(text, NOW) is None


@pytest.mark.parametrize("text", ["", "10", "m", "10x", "ten minutes", "1h-30m"])
def test_what_is_no_length_is_none(text: str) -> None:
    assert duration_of(text) is None


def test_an_option_that_is_no_time_is_refused_with_the_forms_there_are() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="02:13"):
        point_in_time("tomorrow")


def test_a_length_alone_ends_now() -> None:
    assert abs(time_or_duration("10m") - (time.time() - 600)) < 5


def test_what_is_shown_is_understood_again() -> None:
    at = datetime(2026, 11, 16, 2, 13, 7, 412000).timestamp()
    assert shown(at, precise=True) == "2026-11-16 02:13:07.412"
    assert time_at(shown(at), NOW) == int(at)
