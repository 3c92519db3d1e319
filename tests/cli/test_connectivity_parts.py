"""Rates as people write them, and rules of others that may drop something."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from netloom.cli.connectivity.firewall import foreign_chains_in
from netloom.cli.connectivity.rate import shown_rate
from netloom.cli.connectivity.rates import bits

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


def base(
    name: str, hook: str, *, family: str = "inet", table: str = "t", policy: str = "accept"
) -> dict[str, Any]:
    chain = {"family": family, "table": table, "name": name, "type": "filter", "hook": hook, "prio": 0}
    return {"chain": {**chain, "policy": policy}}


def rule(chain: str, *expressions: Any, family: str = "inet", table: str = "t") -> dict[str, Any]:
    return {"rule": {"family": family, "table": table, "chain": chain, "expr": list(expressions)}}


LOOP = [base("c", "forward"), rule("c", {"jump": {"target": "d"}}), rule("d", {"jump": {"target": "c"}})]


@pytest.mark.parametrize(
    ("ruleset", "refuses"),
    [
        ([base("c", "forward")], False),
        ([base("c", "forward", policy="drop")], True),
        ([base("c", "forward"), rule("c", {"accept": None})], False),
        ([base("c", "forward"), rule("c", {"counter": {}}, {"drop": None})], True),
        ([base("c", "forward"), rule("c", {"reject": {"type": "tcp reset"}})], True),
        ([base("c", "forward"), rule("c", {"xt": {"type": "target", "name": "REJECT"}})], True),
        ([base("c", "forward"), rule("c", {"vmap": {"data": {"set": [["eth0", {"drop": None}]]}}})], True),
        ([base("c", "forward"), rule("c", {"goto": {"target": "d"}}), rule("d", {"drop": None})], True),
        (LOOP, False),
    ],
)
def test_what_may_drop_is_found_wherever_it_stands(ruleset: list[dict[str, Any]], refuses: bool) -> None:
    (chain,) = foreign_chains_in(ruleset)

    assert chain.refuses is refuses


def test_our_own_table_is_none_of_others() -> None:
    assert foreign_chains_in([base("between", "forward", table="netloom", policy="drop")]) == []
