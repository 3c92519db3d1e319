from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from netloom.kernel import (
    AnyObject,
    Bridge,
    BridgePort,
    Conflict,
    Forwarding,
    InvalidObject,
    KernelError,
    Neighbour,
    NftElement,
    NftTable,
    Plan,
    Redirect,
    Route,
    Rule,
    Sysctl,
    Up,
    Vxlan,
    apply,
    check,
    remove,
)
from netloom.kernel.objects import Ingress
from netloom.kernel.objects.link import GROUP, find

from ...fixtures.kernel import NamespacePair, changed, new_pair
from . import listed, promises
from .conflicts import KERNEL, Foreign
from .row import BOTH_UP, BRIDGE, OTHER_MAC, PAIR, PAIR_UP, PEER_MAC
from .traffic_rows import TABLE

pytestmark = pytest.mark.kernel


@pytest.fixture
def pair() -> Iterator[NamespacePair]:
    with new_pair(listed.lines) as pair:
        yield pair


@pytest.mark.parametrize("foreign", KERNEL, ids=[foreign.name for foreign in KERNEL])
def test_what_somebody_else_has_put_in_the_place_of_an_object_is_left_alone(
    pair: NamespacePair, foreign: Foreign
) -> None:
    promises.foreign_is_left_alone(pair, foreign)


def test_a_veth_whose_peer_has_a_name_that_is_taken_is_a_conflict(pair: NamespacePair) -> None:
    pair.by_hand(["ip link add eth0 type ifb"], where="attachment")
    before = pair.snapshot(PAIR)
    with pytest.raises(Conflict):
        PAIR.apply(pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


def test_what_is_missing_is_found_where_nothing_ever_was(pair: NamespacePair) -> None:
    for item in (Route("10.1.0.0/16", link="lo"), Route("10.1.0.0/16", kind="blackhole", table=100)):
        assert [found.what for found in item.check(pair.scope)] == ["missing"]


def test_a_vxlan_whose_network_is_taken_under_another_name_is_a_conflict(pair: NamespacePair) -> None:
    pair.by_hand(["ip link add other type vxlan id 7 dstport 4789"])
    vxlan = Vxlan("vx1", 7)
    before = pair.snapshot(vxlan)
    with pytest.raises(Conflict):
        vxlan.apply(pair.scope)
    remove(Plan((vxlan,)), pair.scope)
    assert changed(before, pair.snapshot(vxlan)) == []


EQUAL: dict[str, tuple[AnyObject, tuple[AnyObject, ...], str]] = {
    "an IPv4 route": (Route("10.1.0.2/32", link="nl1"), PAIR_UP, "ip route add 10.1.0.2/32 dev nl1"),
    "an IPv6 route": (Route("fd01::2/128", link="nl1"), PAIR_UP, "ip -6 route add fd01::2/128 dev nl1"),
    "a rule": (Rule(1000, "ipv4", table=100), (), "ip rule add pref 1000 table 100"),
}


@pytest.mark.parametrize(("item", "setup", "by_hand"), EQUAL.values(), ids=EQUAL.keys())
def test_what_somebody_else_made_just_so_is_no_conflict_and_stays(
    pair: NamespacePair, item: AnyObject, setup: tuple[AnyObject, ...], by_hand: str
) -> None:
    pair.set(setup)
    pair.by_hand([by_hand])
    before = pair.snapshot(item)

    item.apply(pair.scope)
    assert item.check(pair.scope) == []

    remove(Plan((item,)), pair.scope)
    assert changed(before, pair.snapshot(item)) == []


NEAR: dict[str, tuple[AnyObject, AnyObject, tuple[AnyObject, ...]]] = {
    "an IPv4 route with a metric": (
        Route("10.1.0.0/16", link="nl1"),
        Route("10.1.0.0/16", link="nl1", metric=5),
        PAIR_UP,
    ),
    "an IPv6 route with a metric": (
        Route("fd01::/64", link="nl1"),
        Route("fd01::/64", link="nl1", metric=5),
        PAIR_UP,
    ),
    "an IPv4 route with a worse metric": (
        Route("10.1.0.0/16", link="nl1", metric=5),
        Route("10.1.0.0/16", link="nl1", metric=6),
        PAIR_UP,
    ),
    "an IPv6 route with a worse metric": (
        Route("fd01::/64", link="nl1"),
        Route("fd01::/64", link="nl1", metric=2000),
        PAIR_UP,
    ),
    "a dead end in another table": (
        Route("10.1.0.0/16", kind="blackhole"),
        Route("10.1.0.0/16", kind="blackhole", table=100),
        (),
    ),
    "a rule with a source": (
        Rule(1000, "ipv4", table=100),
        Rule(1000, "ipv4", table=100, source="10.0.0.0/8"),
        (),
    ),
    "a rule with a mark": (
        Rule(1000, "ipv6", table=100),
        Rule(1000, "ipv6", table=100, mark=1),
        (),
    ),
    "a redirect of another priority": (
        Redirect("nl1", "nl2", priority=1),
        Redirect("nl1", "nl2", priority=2),
        (*BOTH_UP, Ingress("nl1")),
    ),
    "an element of another key": (
        NftElement("inet", "netloom", "pods", ("10.0.0.2", "nl1")),
        NftElement("inet", "netloom", "pods", ("10.0.0.2", "nl2")),
        (TABLE,),
    ),
    "a far end for what is unknown": (
        Forwarding("vx1", "00:00:00:00:00:00", via="192.0.2.1"),
        Forwarding("vx1", "00:00:00:00:00:00", via="192.0.2.2"),
        (Vxlan("vx1", 7),),
    ),
}


@pytest.mark.parametrize(("item", "near", "setup"), NEAR.values(), ids=NEAR.keys())
def test_the_removal_of_what_is_gone_does_not_take_what_is_like_it(
    pair: NamespacePair, item: AnyObject, near: AnyObject, setup: tuple[AnyObject, ...]
) -> None:
    pair.set((*setup, near))
    before = pair.snapshot(near)
    remove(Plan((item,)), pair.scope)
    assert changed(before, pair.snapshot(near)) == []


@pytest.mark.parametrize(("item", "near", "setup"), NEAR.values(), ids=NEAR.keys())
def test_what_is_alike_stands_side_by_side_and_goes_one_by_one(
    pair: NamespacePair, item: AnyObject, near: AnyObject, setup: tuple[AnyObject, ...]
) -> None:
    pair.set((*setup, item, near))
    remove(Plan((item,)), pair.scope)
    assert check(Plan((near,)), pair.scope) == []
    assert check(Plan((item,)), pair.scope) != []


def test_a_rule_and_its_opposite_are_told_apart(pair: NamespacePair) -> None:
    """The kernel does not: it would take one for the other when it adds, and when it removes."""
    rule = Rule(1000, "ipv4", table=100, source="10.0.0.0/8")
    opposite = Rule(1000, "ipv4", table=100, source="10.0.0.0/8", invert=True)
    pair.set((opposite,))
    before = pair.snapshot(rule)
    assert rule.apply(pair.scope) is not None
    assert check(Plan((rule, opposite)), pair.scope) == []
    remove(Plan((rule,)), pair.scope)
    assert changed(before, pair.snapshot(rule)) == []


@pytest.mark.parametrize("state", ["stale", "reachable", "failed"])
@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_a_neighbour_that_the_kernel_has_learned_is_replaced(
    pair: NamespacePair, address: str, state: str
) -> None:
    pair.set(PAIR_UP)
    mac = "" if state == "failed" else f"lladdr {OTHER_MAC}"
    pair.by_hand([f"ip neigh add {address} {mac} dev nl1 nud {state}"])
    neighbour = Neighbour("nl1", address, PEER_MAC)

    assert neighbour.apply(pair.scope) is not None

    assert neighbour.check(pair.scope) == []


def test_a_setting_is_put_back_to_what_it_was_and_not_to_its_default(pair: NamespacePair) -> None:
    setting = Sysctl("net/ipv4/ip_default_ttl", "33", otherwise="64")
    pair.by_hand(["sysctl -q -w net.ipv4.ip_default_ttl=55"])
    undo = setting.apply(pair.scope)
    assert undo is not None
    undo()
    assert pair.read(setting) == "55"


def test_a_link_that_was_up_already_stays_up_when_the_plan_fails(pair: NamespacePair) -> None:
    pair.set(PAIR_UP)
    plan = Plan((Up("nl1"), Bridge("br1"), Up("no-such-link")))
    before = pair.snapshot(PAIR)
    with pytest.raises(Exception, match="no-such-link"):
        apply(plan, pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


def test_a_redirect_to_a_link_that_is_gone_counts_as_missing_and_goes(pair: NamespacePair) -> None:
    redirect = Redirect("nl1", "nl2")
    pair.set((*BOTH_UP, Ingress("nl1")))
    before = [line for line in pair.snapshot(redirect) if " filter " in line]
    pair.set((redirect,))
    pair.by_hand(["ip link del nl2"])

    assert [found.what for found in redirect.check(pair.scope)] == ["missing"]

    redirect.remove(pair.scope)
    assert [line for line in pair.snapshot(redirect) if " filter " in line] == before


def test_a_redirect_takes_the_place_of_one_that_leads_nowhere(pair: NamespacePair) -> None:
    redirect = Redirect("nl1", "nl2")
    pair.set((*BOTH_UP, Ingress("nl1"), redirect))
    whole = [line for line in pair.snapshot(redirect) if " filter " in line]
    pair.by_hand(["ip link del nl2", "ip link add nl2 type bridge"])
    redirect.apply(pair.scope)
    assert redirect.check(pair.scope) == []
    assert len([line for line in pair.snapshot(redirect) if " filter " in line]) == len(whole)


def test_a_filter_that_sends_only_some_packets_there_is_not_the_redirect(pair: NamespacePair) -> None:
    pair.set((*BOTH_UP, Ingress("nl1")))
    some = "tc filter add dev nl1 ingress prio 1 protocol ip u32 match ip dst 10.0.0.1/32"
    pair.by_hand([f"{some} action mirred egress redirect dev nl2"])
    assert Redirect("nl1", "nl2").check(pair.scope) != []


def test_a_mac_that_was_set_behind_another_port_is_left_alone(pair: NamespacePair) -> None:
    pair.set((*BOTH_UP, BRIDGE, BridgePort("nl1", "br1"), BridgePort("nl2", "br1")))
    pair.by_hand([f"bridge fdb add {OTHER_MAC} dev nl2 master static"])
    forwarding = Forwarding("nl1", OTHER_MAC)
    before = pair.snapshot(forwarding)
    with pytest.raises(Conflict) as refused:
        forwarding.apply(pair.scope)
    assert [found.field for found in refused.value.differences] == ["port"]
    assert changed(before, pair.snapshot(forwarding)) == []


@pytest.mark.parametrize("learned_behind", ["eth0", "eth1"])
def test_a_mac_that_a_bridge_has_learned_is_replaced(pair: NamespacePair, learned_behind: str) -> None:
    pair.set((*BOTH_UP, BRIDGE, Up("br1"), BridgePort("nl1", "br1"), BridgePort("nl2", "br1")))
    pair.by_hand([f"sysctl -q -w net.ipv6.conf.{learned_behind}.disable_ipv6=1"], where="attachment")
    with pair.scope.at("attachment").entered():
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with sender:
        sender.bind((learned_behind, 0))
        deadline = time.monotonic() + 5
        while OTHER_MAC not in "".join(pair.snapshot(PAIR)):
            assert time.monotonic() < deadline, "the bridge learns nothing"
            sender.send(bytes.fromhex(f"ffffffffffff{OTHER_MAC.replace(':', '')}88b5") + bytes(46))
    forwarding = Forwarding("nl1", OTHER_MAC)

    assert forwarding.apply(pair.scope) is not None

    assert forwarding.check(pair.scope) == []


def test_an_equal_link_that_somebody_else_made_is_kept_and_left_when_it_is_removed(
    pair: NamespacePair,
) -> None:
    bridge = Bridge("br7")
    pair.by_hand(["ip link add br7 type bridge"])
    before = pair.snapshot(bridge)
    assert bridge.apply(pair.scope) is None
    with pytest.raises(Conflict) as refused:
        bridge.remove(pair.scope)
    assert [found.field for found in refused.value.differences] == ["owner"]
    assert changed(before, pair.snapshot(bridge)) == []


def test_a_link_that_was_about_to_be_removed_is_ours_again_when_it_is_applied(pair: NamespacePair) -> None:
    """Whoever removed it died in between: it must not go with the next one of that number."""
    bridge = Bridge("br7")
    pair.set((bridge,))
    pair.by_hand([f"ip link set br7 group {GROUP | 0x7777}"])
    assert bridge.apply(pair.scope) is None
    found = find(pair.scope.host, "br7")
    assert found is not None
    assert found.group == GROUP


def test_a_vni_that_another_link_has_is_a_conflict_about_its_place(pair: NamespacePair) -> None:
    pair.by_hand(["ip link add vx7 type vxlan id 7 dstport 4789"])
    with pytest.raises(Conflict) as refused:
        Vxlan("vx8", 7).apply(pair.scope)
    assert [found.field for found in refused.value.differences] == ["place"]


def test_a_hook_with_somebody_elses_filter_stays(pair: NamespacePair) -> None:
    pair.set((*BOTH_UP, Ingress("nl1"), Redirect("nl1", "nl2")))
    other = "tc filter add dev nl1 ingress prio 9 protocol ip u32 match u32 0 0"
    pair.by_hand([f"{other} action mirred egress redirect dev nl2"])
    Redirect("nl1", "nl2").remove(pair.scope)
    with pytest.raises(Conflict) as refused:
        Ingress("nl1").remove(pair.scope)
    assert [found.field for found in refused.value.differences] == ["filters"]


@pytest.mark.parametrize(
    ("key", "value"),
    [(("10.0.0.1", "http"), ("1",)), (("localhost", "80"), ("1",)), (("10.0.0.0/24", "80"), ("1",))],
)
def test_an_element_that_nft_would_have_to_look_up_is_refused(
    pair: NamespacePair, key: tuple[str, ...], value: tuple[str, ...]
) -> None:
    table = NftTable("inet", "looked", "map m { type ipv4_addr . inet_service : mark; }")
    pair.set((table,))
    element = NftElement("inet", "looked", "m", key, value)
    with pytest.raises(InvalidObject):
        element.apply(pair.scope)
    element.remove(pair.scope)


def test_an_element_of_a_set_that_cannot_be_compared_is_refused(pair: NamespacePair) -> None:
    pair.set(
        (NftTable("inet", "odd", "set i { type ipv4_addr; flags interval; }\nset t { type icmp_type; }"),)
    )
    for name, key in (("i", "10.0.0.1"), ("t", "echo-request")):
        element = NftElement("inet", "odd", name, (key,))
        with pytest.raises(KernelError, match="compare"):
            element.apply(pair.scope)
        element.remove(pair.scope)
