"""What stands beside a plan's objects, or in their place, is somebody else's, and survives them."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from netloom.kernel import (
    Address,
    AnyObject,
    Bridge,
    BridgePort,
    Conflict,
    Forwarding,
    Hop,
    KernelError,
    Macvlan,
    Neighbour,
    NftElement,
    Plan,
    Redirect,
    Route,
    Rule,
    Sysctl,
    Up,
    Veth,
    Vxlan,
    apply,
    check,
    remove,
)
from netloom.kernel.objects import Ingress
from netloom.kernel.objects.link import GROUP

from ...fixtures.kernel import NamespacePair, changed, new_pair
from . import listed
from .row import BOTH_UP, BRIDGE, MAC, OTHER_MAC, PAIR, PAIR_UP, PEER_MAC, ROUTABLE

pytestmark = pytest.mark.kernel


@pytest.fixture
def pair() -> Iterator[NamespacePair]:
    with new_pair(listed.lines) as pair:
        yield pair


# Objects of one plan, what another plan wants in the same place, and what both stand on.
OF_ANOTHER_PLAN: dict[str, tuple[AnyObject, AnyObject, tuple[AnyObject, ...]]] = {
    "an IPv4 route by another gateway": (
        Route("10.9.0.0/16", via="10.0.0.2"),
        Route("10.9.0.0/16", via="10.0.0.3"),
        ROUTABLE,
    ),
    "an IPv6 route by another gateway": (
        Route("fd09::/64", via="fd00::2"),
        Route("fd09::/64", via="fd00::3"),
        ROUTABLE,
    ),
    "an IPv6 route of one of the ways": (
        Route("fd09::/64", via="fd00::2", link="nl1"),
        Route("fd09::/64", hops=(Hop("nl1", "fd00::2"), Hop("nl1", "fd00::3"))),
        ROUTABLE,
    ),
    "a route where a dead end should be": (
        Route("10.9.0.0/16", via="10.0.0.2"),
        Route("10.9.0.0/16", kind="blackhole"),
        ROUTABLE,
    ),
    "a route to a link where another should be": (
        Route("10.9.0.0/16", link="nl1", metric=7),
        Route("10.9.0.0/16", link="nl2", metric=7),
        BOTH_UP,
    ),
    "an address with a prefix route": (
        Address("nl1", "10.9.0.1/24"),
        Address("nl1", "10.9.0.1/24", prefix_route=False),
        PAIR_UP,
    ),
    "a veth with another peer": (Veth("nl5", "eth5"), Veth("nl5", "eth6"), ()),
}


@pytest.mark.parametrize(("theirs", "refused", "setup"), OF_ANOTHER_PLAN.values(), ids=OF_ANOTHER_PLAN.keys())
def test_a_plan_that_was_refused_takes_nothing_of_another_plan_when_it_is_removed(
    pair: NamespacePair, theirs: AnyObject, refused: AnyObject, setup: tuple[AnyObject, ...]
) -> None:
    pair.set((*setup, theirs))
    before = pair.snapshot(theirs)
    for attempt in (apply, remove):
        with pytest.raises(Conflict):
            attempt(Plan((refused,)), pair.scope)
    assert changed(before, pair.snapshot(theirs)) == []


def test_a_route_whose_link_is_gone_is_not_taken_for_the_one_that_came_after_it(
    pair: NamespacePair,
) -> None:
    pair.set((*BOTH_UP, Route("10.9.0.0/16", link="nl2")))
    before = pair.snapshot(PAIR)
    with pytest.raises(Conflict, match="a deleted link"):
        remove(Plan((Route("10.9.0.0/16", link="nl7"),)), pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


@pytest.mark.parametrize("source", ["10.0.0.0/8", None], ids=["narrow", "odd"])
def test_a_rule_that_somebody_else_made_is_not_ours_to_remove(
    pair: NamespacePair, source: str | None
) -> None:
    """To the kernel, a rule with more conditions is as good as the one that it was asked to delete."""
    ours = Rule(100, "ipv4", table=100)
    if source is None:
        pair.by_hand(["ip rule add pref 100 lookup 100 ipproto tcp proto 78"])
    else:
        pair.set((Rule(100, "ipv4", table=100, source=source),))
    pair.by_hand(["ip rule add pref 100 lookup 100"])
    before = pair.snapshot(ours)

    apply(Plan((ours,)), pair.scope)
    assert ours.check(pair.scope) == []
    remove(Plan((ours,)), pair.scope)

    assert changed(before, pair.snapshot(ours)) == []


def test_a_rule_with_conditions_that_we_do_not_know_keeps_them_when_ours_goes(pair: NamespacePair) -> None:
    ours = Rule(100, "ipv4", table=100)
    pair.by_hand(["ip rule add pref 100 lookup 100 ipproto tcp dport 80 proto 78"])
    before = pair.snapshot(ours)

    assert ours.apply(pair.scope) is not None
    assert ours.check(pair.scope) == []
    remove(Plan((ours,)), pair.scope)

    assert changed(before, pair.snapshot(ours)) == []


@pytest.mark.parametrize(("family", "everything"), [("ipv4", "0.0.0.0/0"), ("ipv6", "::/0")])
def test_a_rule_for_everything_is_found_again(pair: NamespacePair, family: str, everything: str) -> None:
    rule = Rule(100, family, table=100, source=everything, destination=everything)  # type: ignore[arg-type]
    before = pair.snapshot(rule)
    assert [change.change for change in apply(Plan((rule, rule)), pair.scope)] == ["made", "kept"]
    assert rule.check(pair.scope) == []
    remove(Plan((rule,)), pair.scope)
    assert changed(before, pair.snapshot(rule)) == []


def test_a_link_that_has_our_name_as_another_name_is_not_ours(pair: NamespacePair) -> None:
    pair.by_hand(
        [
            "ip link add br-prod type bridge",
            f"ip link set br-prod group {GROUP}",
            "ip link property add dev br-prod altname br0",
        ]
    )
    bridge = Bridge("br0")
    before = pair.snapshot(bridge)
    for attempt in (apply, remove):
        with pytest.raises(Conflict) as refused:
            attempt(Plan((bridge,)), pair.scope)
        assert [found.field for found in refused.value.differences] == ["name"]
    assert changed(before, pair.snapshot(bridge)) == []


def test_links_may_be_referred_to_by_another_name(pair: NamespacePair) -> None:
    pair.set((*BOTH_UP, BRIDGE, Ingress("nl1")))
    pair.by_hand([f"ip link property add dev {name} altname the-{name}" for name in ("nl1", "nl2", "br1")])
    objects: tuple[AnyObject, ...] = (
        BridgePort("the-nl1", "the-br1"),
        Vxlan("vx1", 7, device="the-nl2"),
        Macvlan("mv1", "the-nl2"),
        Redirect("the-nl1", "the-nl2"),
        Address("the-nl2", "10.0.0.1/24"),
        Route("10.9.0.0/16", link="the-nl2"),
        Up("the-nl2"),
        Neighbour("the-nl2", "10.0.0.2", PEER_MAC),
        Forwarding("the-nl1", OTHER_MAC),
    )
    before = pair.snapshot(PAIR)
    apply(Plan(objects), pair.scope)
    assert check(Plan(objects), pair.scope) == []
    assert {change.change for change in apply(Plan(objects), pair.scope)} == {"kept"}
    remove(Plan(tuple(item for item in objects if not isinstance(item, Up))), pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


@pytest.mark.parametrize("name", ["nl1", "another-name"])
def test_the_other_addresses_of_a_subnet_stay_when_its_first_goes(pair: NamespacePair, name: str) -> None:
    pair.set(PAIR_UP)
    pair.by_hand(["ip link property add dev nl1 altname another-name"])
    first = Address(name, "10.5.0.1/24")
    pair.set((first,))
    pair.by_hand(["ip addr add 10.5.0.2/24 dev nl1"])
    setting = Sysctl("net/ipv4/conf/nl1/promote_secondaries", "0")
    before = pair.read(setting)

    remove(Plan((first,)), pair.scope)

    assert _addresses(pair) == ["10.5.0.2"]
    assert pair.read(setting) == before


@pytest.mark.parametrize("name", ["nl1", "another-name"])
def test_a_link_that_is_down_again_has_its_addresses_still(pair: NamespacePair, name: str) -> None:
    pair.set((PAIR,))
    pair.by_hand(
        ["ip link property add dev nl1 altname another-name", "ip addr add fd01::1/64 dev nl1 nodad"]
    )
    setting = Sysctl("net/ipv6/conf/nl1/keep_addr_on_down", "0")
    before = pair.read(setting)

    undo = Up(name).apply(pair.scope)
    assert undo is not None
    undo()
    assert _addresses(pair) == ["fd01::1"]

    pair.set((Up(name),))
    remove(Plan((Up(name),)), pair.scope)
    assert _addresses(pair) == ["fd01::1"]
    assert pair.read(setting) == before


def _addresses(pair: NamespacePair) -> list[str]:
    with pair.scope.host.entered():
        links = listed.listing("ip -j addr show dev nl1")
    return [address["local"] for entry in links for address in entry["addr_info"]]


@pytest.mark.parametrize("how", ["nud noarp", "nud reachable extern_learn"])
@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_a_neighbour_that_somebody_has_set_is_not_replaced(
    pair: NamespacePair, address: str, how: str
) -> None:
    pair.set(PAIR_UP)
    pair.by_hand([f"ip neigh add {address} lladdr {OTHER_MAC} dev nl1 {how}"])
    neighbour = Neighbour("nl1", address, PEER_MAC)
    before = pair.snapshot(neighbour)
    with pytest.raises(Conflict):
        apply(Plan((neighbour,)), pair.scope)
    remove(Plan((neighbour,)), pair.scope)
    assert changed(before, pair.snapshot(neighbour)) == []


@pytest.mark.parametrize("address", ["10.9.9.9", "fd00::9"])
def test_a_neighbour_on_a_link_without_neighbours_is_refused(pair: NamespacePair, address: str) -> None:
    pair.set((Up("lo"),))
    before = pair.snapshot(PAIR)
    with pytest.raises(KernelError, match="no neighbours"):
        apply(Plan((Neighbour("lo", address, PEER_MAC),)), pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []


def test_a_ports_own_mac_is_never_ours(pair: NamespacePair) -> None:
    pair.set((*PAIR_UP, BRIDGE, BridgePort("nl1", "br1")))
    forwarding = Forwarding("nl1", MAC)
    for attempt in (apply, remove):
        with pytest.raises(Conflict):
            attempt(Plan((forwarding,)), pair.scope)
    with pair.scope.host.entered():
        entries = listed.listing("bridge -j fdb show dev nl1")
    assert any(entry["mac"] == MAC and entry.get("master") == "br1" for entry in entries)


def test_a_port_whose_maker_died_before_it_set_the_flags_is_finished(pair: NamespacePair) -> None:
    port = BridgePort("nl1", "br1", isolated=True, hairpin=True, learning=False)
    pair.set((PAIR, BRIDGE, BridgePort("nl1", "br1", hairpin=True)))
    before = pair.snapshot(port)

    undo = port.apply(pair.scope)
    assert undo is not None
    assert port.check(pair.scope) == []

    undo()
    assert changed(before, pair.snapshot(port)) == []


def test_a_port_that_somebody_has_set_otherwise_is_left_alone(pair: NamespacePair) -> None:
    pair.set((PAIR, BRIDGE, BridgePort("nl1", "br1", isolated=True)))
    with pytest.raises(Conflict) as refused:
        apply(Plan((BridgePort("nl1", "br1", isolated=False),)), pair.scope)
    assert [found.field for found in refused.value.differences] == ["isolated"]


def test_somebody_elses_link_in_our_bridge_is_left_as_it_is(pair: NamespacePair) -> None:
    pair.set((BRIDGE,))
    pair.by_hand(["ip link add foreign type veth peer name other", "ip link set foreign master br1"])
    port = BridgePort("foreign", "br1", isolated=True)
    before = pair.snapshot(port)
    with pytest.raises(Conflict):
        apply(Plan((port,)), pair.scope)
    assert changed(before, pair.snapshot(port)) == []


def test_a_bridges_mtu_does_not_follow_its_ports(pair: NamespacePair) -> None:
    for mtu in (1500, 68, 65535):
        bridge = Bridge("br5", mtu=mtu)
        pair.set((Veth("nl5", "eth5", mtu=1300), bridge, BridgePort("nl5", "br5")))
        assert bridge.check(pair.scope) == []
        remove(Plan((Veth("nl5", "eth5"), bridge)), pair.scope)


def test_the_queue_of_a_veths_peer_is_compared(pair: NamespacePair) -> None:
    veth = Veth("nl5", "eth5", txqlen=500)
    pair.set((veth,))
    pair.by_hand(["ip link set eth5 txqueuelen 7"], where="attachment")
    assert [found.field for found in veth.check(pair.scope)] == ["peer's txqlen"]


def test_what_the_kernel_says_exists_though_nothing_of_ours_does_is_told_in_its_words(
    pair: NamespacePair,
) -> None:
    pair.set(ROUTABLE)
    twice = Route("fd09::/64", hops=(Hop("nl1", "fd00::2"), Hop("nl1", "fd00::2")))
    before = pair.snapshot(twice)
    with pytest.raises(KernelError, match=r"^cannot add route fd09::/64: File exists") as refused:
        apply(Plan((twice,)), pair.scope)
    assert not isinstance(refused.value, Conflict)
    assert refused.value.errno == errno.EEXIST
    assert changed(before, pair.snapshot(twice)) == []


@pytest.mark.parametrize(
    ("by_hand", "item"),
    [
        ("ip addr add 10.77.0.1/24 dev nl1", Address("nl1", "10.77.0.1/24")),
        ("ip addr add fd77::1/64 dev nl1 nodad", Address("nl1", "fd77::1/64")),
        (
            "ip neigh add 10.77.0.9 lladdr 02:00:00:00:77:09 dev nl1",
            Neighbour("nl1", "10.77.0.9", "02:00:00:00:77:09"),
        ),
        ("ip neigh add proxy 10.77.0.8 dev nl1", Neighbour("nl1", "10.77.0.8")),
    ],
    ids=str,
)
def test_an_equal_one_that_somebody_else_made_is_kept_and_stays(
    pair: NamespacePair, by_hand: str, item: Address | Neighbour
) -> None:
    pair.set(PAIR_UP)
    pair.by_hand([by_hand])
    assert item.apply(pair.scope) is None
    item.remove(pair.scope)
    assert item.check(pair.scope) == []


def test_elements_are_put_into_our_own_tables_only(pair: NamespacePair) -> None:
    pair.by_hand(["nft add table inet theirs", "nft add set inet theirs s { type ipv4_addr; }"])
    with pytest.raises(Conflict):
        NftElement("inet", "theirs", "s", ("10.0.0.1",)).apply(pair.scope)
