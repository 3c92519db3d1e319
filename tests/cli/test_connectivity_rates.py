"""Rates, as people write them and as `netloom connectivity` shows them."""

from __future__ import annotations

import argparse

import pytest

from netloom.cli.commands.connectivity import bits
from netloom.ops.connectivity.tcp import shown_rate

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50M", 50_000_000),
        ("1.5G", 1_500_000_000),
        ("64kbit", 64_000),
        ("8000", 8_000),
        ("10Mbit/s", 10_000_000),
    ],
)
def test_a_rate_is_read(text: str, rate: int) -> None:
    assert bits(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-1M", "7999", "500G", "1T", "50 MB"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        bits(text)


@pytest.mark.parametrize(
    ("rate", "text"), [(50e6, "50 Mbit/s"), (1.25e9, "1.25 Gbit/s"), (64e3, "64 kbit/s"), (12, "12 bit/s")]
)
def test_a_rate_is_shown(rate: float, text: str) -> None:
    assert shown_rate(rate) == text
