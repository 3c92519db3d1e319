"""A route is asked for by a lookup, which answers for the packet, not for the table: whatever the two
differ in, a check must say what the table holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.kernel import AnyObject, Conflict, Plan, Route, remove
from netloom.kernel.netlink import route as wire
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE

from ...fixtures.kernel import NamespacePair, changed, new_pair
from . import listed
from .row import BOTH_UP, PAIR

pytestmark = pytest.mark.kernel

HOSTS = ("10.1.0.2/32", "fd01::2/128")
DEFAULTS = ("0.0.0.0/0", "::/0")
families = pytest.mark.parametrize(
    "destination", [*HOSTS, *DEFAULTS], ids=["IPv4", "IPv6", "IPv4 default", "IPv6 default"]
)
defaults = pytest.mark.parametrize("destination", DEFAULTS, ids=["IPv4", "IPv6"])


@pytest.fixture
def pair() -> Iterator[NamespacePair]:
    with new_pair(listed.lines) as pair:
        pair.set(BOTH_UP)
        yield pair


def ip(destination: str) -> str:
    return "ip -6" if ":" in destination else "ip"


def found(pair: NamespacePair, item: AnyObject) -> list[str]:
    return [str(difference.field or difference.what) for difference in item.check(pair.scope)]


@families
def test_the_cost_of_one_route_does_not_grow_with_their_number(pair: NamespacePair, destination: str) -> None:
    """A list of 4,000 takes 5 ms and more."""
    connection = pair.scope.host.route
    packed = bytes([10, 2]) if "." in destination else bytes([0xFD, 2, *bytes(12)])
    family, hop = (2 if len(packed) == 2 else 10), wire.RouteHop(connection.index("nl1"), None)
    for number in range(4000):
        address = packed + number.to_bytes(2, "big")
        request = wire.build(family, address, len(address) * 8, hops=[hop], protocol=78)
        connection.change(wire.NEW, CREATE | EXCLUSIVE, request)
    ours, took = Route(destination, link="nl1"), []
    for _ in range(20):
        ours.apply(pair.scope)
        start = time.perf_counter()
        assert ours.check(pair.scope) == []
        ours.remove(pair.scope)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.002
    assert found(pair, ours) == ["missing"]


def halves_of_everything(pair: NamespacePair, destination: str) -> None:
    """As VPNs put them before a default route, to which then no packet leads."""
    halves = ("0.0.0.0/1", "128.0.0.0/1") if "." in destination else ("::/1", "8000::/1")
    pair.by_hand([f"{ip(destination)} route add {half} dev nl1 proto static" for half in halves])


@defaults
def test_a_default_route_that_narrower_ones_hide_is_as_planned(pair: NamespacePair, destination: str) -> None:
    ours = Route(destination, link="nl1")
    pair.set((ours,))
    halves_of_everything(pair, destination)
    assert found(pair, ours) == []
    remove(Plan((ours,)), pair.scope)
    assert found(pair, ours) == ["missing"]


@defaults
def test_a_hidden_default_route_of_somebody_else_is_different_and_stays(
    pair: NamespacePair, destination: str
) -> None:
    halves_of_everything(pair, destination)
    metric = "1024" if ":" in destination else "0"
    pair.by_hand([f"{ip(destination)} route add {destination} dev nl2 metric {metric} proto static"])
    ours = Route(destination, link="nl1")
    before = pair.snapshot(ours)
    assert found(pair, ours) == ["way"]
    remove(Plan((ours,)), pair.scope)
    assert changed(before, pair.snapshot(ours)) == []


@defaults
def test_routes_of_others_cost_nothing_even_where_they_hide_the_default_route(
    pair: NamespacePair, destination: str, tmp_path: Path
) -> None:
    """The kernel passes over 20,000 in 2 ms; to list them takes 80."""
    network = "10.{}.{}.0/24" if "." in destination else "fd02:0:{:x}:{:x}::/64"
    networks = (network.format(*divmod(number, 200)) for number in range(20_000))
    batch = tmp_path / "routes"
    batch.write_text("".join(f"route add {it} dev nl1 proto static\n" for it in networks))
    ours = Route(destination, link="nl1")
    pair.set((ours,))
    halves_of_everything(pair, destination)
    pair.by_hand([f"{ip(destination)} -batch {batch}"])
    took = []
    for _ in range(5):
        start = time.perf_counter()
        assert found(pair, ours) == []
        took.append(time.perf_counter() - start)
    assert min(took) < 0.02


@families
def test_a_route_that_another_with_a_better_metric_hides_is_as_planned(
    pair: NamespacePair, destination: str
) -> None:
    ours, other = Route(destination, link="nl1", metric=50), Route(destination, link="nl2", metric=5)
    pair.set((ours, other))
    before = pair.snapshot(ours)
    assert found(pair, ours) == found(pair, other) == []
    remove(Plan((ours,)), pair.scope)
    assert found(pair, ours) == ["missing"]
    assert found(pair, other) == []
    pair.set((ours,))
    assert changed(before, pair.snapshot(ours)) == []


@families
def test_a_route_is_missing_though_an_equal_one_with_another_metric_is_there(
    pair: NamespacePair, destination: str
) -> None:
    pair.set((Route(destination, link="nl1", metric=50),))
    assert found(pair, Route(destination, link="nl1")) == ["missing"]


@families
def test_a_rule_that_leads_to_another_table_deceives_nobody(pair: NamespacePair, destination: str) -> None:
    pair.by_hand([f"{ip(destination)} rule add pref 10 lookup 100"])
    ours, other = Route(destination, link="nl1"), Route(destination, link="nl1", table=100)
    pair.set((other,))
    assert found(pair, ours) == ["missing"]
    remove(Plan((ours,)), pair.scope)
    assert found(pair, other) == []
    pair.set((ours,))
    remove(Plan((other,)), pair.scope)
    assert found(pair, ours) == []
    assert found(pair, other) == ["missing"]


@families
def test_what_stands_in_the_local_table_is_not_taken_for_the_main_one(
    pair: NamespacePair, destination: str
) -> None:
    """IPv4 keeps both in one place, and tells them apart only where there are rules."""
    pair.by_hand([f"{ip(destination)} route add {destination} dev nl1 table local"])
    ours = Route(destination, link="nl1")
    before = pair.snapshot(ours)
    assert found(pair, ours) == ["missing"]
    remove(Plan((ours,)), pair.scope)
    assert changed(before, pair.snapshot(ours)) == []
    pair.set((ours,))
    assert found(pair, ours) == []


@pytest.mark.parametrize("order", ["prepend", "append"])
def test_of_two_routes_in_one_place_the_other_stays(pair: NamespacePair, order: str) -> None:
    ours = Route(HOSTS[0], link="nl1")
    pair.by_hand([f"ip route add {HOSTS[0]} dev nl2 proto 78"])
    before = pair.snapshot(ours)
    pair.by_hand([f"ip route {order} {HOSTS[0]} dev nl1 scope link proto 78"])
    assert found(pair, ours) == []
    remove(Plan((ours,)), pair.scope)
    assert changed(before, pair.snapshot(ours)) == []


@families
def test_a_network_is_found_beside_a_narrower_route_to_its_first_address(
    pair: NamespacePair, destination: str
) -> None:
    network = "10.1.0.0/16" if "." in destination else "fd01::/64"
    first = network.replace("/16", "/32").replace("/64", "/128")
    ours = Route(network, link="nl1")
    pair.set((ours, Route(first, link="nl2")))
    assert found(pair, ours) == []
    remove(Plan((ours,)), pair.scope)
    assert found(pair, ours) == ["missing"]
    assert found(pair, Route(first, link="nl2")) == []


@families
def test_a_route_of_somebody_else_is_equal_but_not_ours(pair: NamespacePair, destination: str) -> None:
    ours = Route(destination, link="nl1")
    pair.by_hand(
        [f"{ip(destination)} route add {destination} dev nl1 metric {'1024' if ':' in destination else 0}"]
    )
    before = pair.snapshot(ours)
    assert found(pair, ours) == []
    remove(Plan((ours,)), pair.scope)
    assert changed(before, pair.snapshot(ours)) == []


@families
def test_a_route_by_another_way_is_a_conflict(pair: NamespacePair, destination: str) -> None:
    pair.set((Route(destination, link="nl2"),))
    ours = Route(destination, link="nl1")
    before = pair.snapshot(PAIR)
    assert found(pair, ours) == ["way"]
    with pytest.raises(Conflict):
        remove(Plan((ours,)), pair.scope)
    assert changed(before, pair.snapshot(PAIR)) == []
