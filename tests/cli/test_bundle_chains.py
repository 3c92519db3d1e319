"""Base chains of other firewalls, as a bundle lists them: which of them may drop something."""

from __future__ import annotations

from typing import Any

import pytest

from netloom.ops.bundle.machine import foreign_chains_in

pytestmark = pytest.mark.unit


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
