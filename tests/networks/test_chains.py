"""Chains of networks: their names follow from what they say, and none is taken for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from netloom.networks.features import isolation, masquerade
from netloom.networks.features.options import MasqueradeScope

pytestmark = pytest.mark.unit

POOLS = ("10.9.0.0/16", "fd09::/64")
CIDRS = st.lists(st.sampled_from(["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"]), unique=True).map(
    tuple
)
MASQUERADES = st.builds(MasqueradeScope, ipv4=st.booleans(), ipv6=st.booleans(), exceptions=CIDRS)


@given(MASQUERADES)
def test_a_networks_masquerade_is_sound(said: MasqueradeScope) -> None:
    assert masquerade.is_sound(masquerade.chain(said, POOLS))


@given(MASQUERADES)
def test_a_masquerade_whose_rules_were_changed_is_not_sound(said: MasqueradeScope) -> None:
    made = masquerade.chain(said, POOLS)
    assert not masquerade.is_sound(replace(made, rules=(*made.rules, "accept")))


@given(MASQUERADES, MASQUERADES)
def test_networks_that_say_the_same_share_a_chain(one: MasqueradeScope, other: MasqueradeScope) -> None:
    chains = masquerade.chain(one, POOLS), masquerade.chain(other, POOLS)
    assert (chains[0].name == chains[1].name) == (chains[0].rules == chains[1].rules)


@given(st.text(max_size=30))
def test_a_network_that_is_kept_apart_is_sound(network: str) -> None:
    made = isolation.chain("networks", network)
    assert made is not None
    assert isolation.is_sound(made)


def test_a_chain_that_keeps_apart_is_no_masquerade() -> None:
    made = isolation.chain("networks", "net")
    assert made is not None
    assert not masquerade.is_sound(made)


def test_a_masquerade_keeps_nobody_apart() -> None:
    assert not isolation.is_sound(masquerade.chain(MasqueradeScope(), POOLS))


def test_nothing_is_kept_apart_unless_it_is_said() -> None:
    assert isolation.chain("none", "net") is None
    assert isolation.elements("none", None, "loom1") == []


def test_a_family_that_is_not_masqueraded_has_no_element() -> None:
    said = MasqueradeScope(ipv6=False)
    found = masquerade.elements(masquerade.chain(said, POOLS), said, ["10.9.0.1", "fd09::1"])
    assert [it.key for it in found] == [("10.9.0.1",)]


def test_pools_and_exceptions_are_left_alone() -> None:
    said = MasqueradeScope(exceptions=("192.0.2.0/24",))
    rules = masquerade.chain(said, POOLS).rules
    assert {rule for rule in rules if rule.endswith(" return")} >= {
        "ip daddr 10.9.0.0/16 return",
        "ip6 daddr fd09::/64 return",
        "ip daddr 192.0.2.0/24 return",
    }
    assert rules[-1] == "masquerade"
