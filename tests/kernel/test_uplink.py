"""The uplink: which link leads out, and what fits it."""

from __future__ import annotations

import subprocess
import time

import pytest

from netloom.kernel import Namespace
from netloom.kernel.netlink import route as wire
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE
from netloom.kernel.uplink import Uplink, uplink

pytestmark = pytest.mark.kernel

LINKS = """
link add wide mtu 9000 type veth peer name wide-far
link add plain mtu 1500 type veth peer name plain-far
link add narrow mtu 1400 type veth peer name narrow-far
link set wide up
link set wide-far up
link set plain up
link set plain-far up
link set narrow up
link set narrow-far up
addr add 10.1.0.1/24 dev wide
addr add 10.2.0.1/24 dev plain
addr add 10.3.0.1/24 dev narrow
addr add fd01::1/64 dev wide nodad
addr add fd02::1/64 dev plain nodad
addr add fd03::1/64 dev narrow nodad
"""


@pytest.fixture
def node(host: Namespace) -> Namespace:
    """A namespace with three ways out of different width, and no default route."""
    routes(host, *LINKS.strip().splitlines())
    return host


def routes(namespace: Namespace, *lines: str) -> None:
    with namespace.entered():
        subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), check=True, text=True)


CASES: dict[str, tuple[tuple[str, ...], Uplink]] = {
    "IPv4": (("route add default via 10.2.0.9",), Uplink("plain", 1500)),
    "IPv6": (("route add default via fd02::9",), Uplink("plain", 1500)),
    "to a link, without a gateway": (("route add default dev wide",), Uplink("wide", 9000)),
    "the lowest metric": (
        ("route add default via 10.3.0.9 metric 100", "route add default via 10.1.0.9 metric 50"),
        Uplink("wide", 9000),
    ),
    "the lowest metric of IPv6": (
        ("route add default via fd03::9 metric 100", "route add default via fd01::9 metric 50"),
        Uplink("wide", 9000),
    ),
    "both families by one link": (
        ("route add default via 10.2.0.9", "route add default via fd02::9"),
        Uplink("plain", 1500),
    ),
    "both families, IPv6 by a narrower one": (
        ("route add default via 10.2.0.9", "route add default via fd03::9"),
        Uplink("narrow", 1400),
    ),
    "both families, IPv4 by a narrower one": (
        ("route add default via 10.3.0.9", "route add default via fd01::9"),
        Uplink("narrow", 1400),
    ),
    "several hops": (
        ("route add default nexthop via 10.1.0.9 nexthop via 10.3.0.9 nexthop via 10.2.0.9",),
        Uplink("narrow", 1400),
    ),
    "several hops of IPv6": (
        ("route add default nexthop via fd01::9 nexthop via fd02::9",),
        Uplink("plain", 1500),
    ),
    "a route with an MTU of its own": (("route add default via 10.1.0.9 mtu 1300",), Uplink("wide", 1300)),
    "a route with a larger MTU than its link": (
        ("route add default via 10.2.0.9 mtu 8000",),
        Uplink("plain", 1500),
    ),
    "one family with an MTU of its own": (
        ("route add default via 10.2.0.9", "route add default via fd02::9 mtu 1280"),
        Uplink("plain", 1280),
    ),
    "narrower routes for half of the world": (
        ("route add default via 10.2.0.9", "route add 128.0.0.0/1 dev wide", "route add 2000::/3 dev wide"),
        Uplink("plain", 1500),
    ),
    "a dead end for where we look": (
        ("route add default via 10.2.0.9", "route add blackhole 198.41.0.0/16"),
        Uplink("plain", 1500),
    ),
    "a rule that sends all by another table": (
        (
            "route add default via 10.2.0.9",
            "route add default dev narrow table 100",
            "rule add pref 9 lookup 100",
        ),
        Uplink("narrow", 1400),
    ),
}


@pytest.mark.parametrize(("lines", "expected"), CASES.values(), ids=CASES)
def test_the_link_of_the_default_route_is_the_uplink(
    node: Namespace, lines: tuple[str, ...], expected: Uplink
) -> None:
    routes(node, *lines)
    assert uplink(node) == expected


@pytest.mark.parametrize(
    "line",
    ["", "route add 10.9.0.0/16 dev wide", "route add unreachable default", "-6 route add blackhole default"],
)
def test_without_a_default_route_there_is_none(node: Namespace, line: str) -> None:
    if line:
        with node.entered():
            subprocess.run(["ip", *line.split()], check=True)
    assert uplink(node) is None


def test_a_namespace_without_anything_has_none(host: Namespace) -> None:
    assert uplink(host) is None


@pytest.mark.parametrize("default", [True, False])
def test_it_does_not_list_the_routes_of_a_node(node: Namespace, default: bool) -> None:
    """A list of 3,000 in each family takes 5 ms and more."""
    if default:
        routes(node, "route add default via 10.2.0.9", "route add default via fd03::9")
    connection = node.route
    hop = wire.RouteHop(connection.index("wide"), None)
    for family, network in ((2, b"\x0a\x09"), (10, b"\xfd\x09" + bytes(12))):
        for number in range(3000):
            address = network + number.to_bytes(2, "big")
            request = wire.build(family, address, len(address) * 8, hops=[hop])
            connection.change(wire.NEW, CREATE | EXCLUSIVE, request)
    took = []
    for _ in range(20):
        start = time.perf_counter()
        found = uplink(node)
        took.append(time.perf_counter() - start)
        assert found == (Uplink("narrow", 1400) if default else None)
    assert min(took) < 0.002
