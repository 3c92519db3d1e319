"""What machines beside the host have is not given to a container: gateways, DNS servers, neighbours."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.api.catalogue import ENTRIES
from netloom.kernel.values import packed_ip, shown_ip
from netloom.ops.node.host import read_host, resolvers

from ..fixtures.node import NETLOOM, Node, eventually
from ..fixtures.pages import conf_dir, is_there, scrape

pytestmark = pytest.mark.kernel

CLASH = "address-clash"


def ip(node: Node, *lines: str) -> None:
    for line in lines:
        node.inside("ip", *line.split())


@pytest.fixture
def beside() -> Iterator[Node]:
    """A host on a network of which its containers have a part, with two links and no agent."""
    with tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory, Node(Path(directory)) as node:
        for name in ("up", "lan"):
            ip(node, f"link add {name}0 type veth peer name {name}1", f"link set {name}0 up")
            ip(node, f"link set {name}1 up")
        ip(node, "addr add 10.9.0.2/24 dev up0", "addr add fd09::2/64 dev up0 nodad")
        ip(node, "addr add 10.9.1.2/24 dev lan0")
        yield node


def given(node: Node, count: int) -> list[str]:
    return [address for _ in range(count) for address in node.add(node.container()).addresses]


def known(node: Node) -> dict[str, tuple[str, str]]:
    """By address: what a machine is to the host, and where."""
    found = read_host(node.namespace).neighbours
    return {shown_ip(ip): (it.role, it.link) for ip, it in found.items()}


# What makes an address another machine's, and what that is.
ROUTES = {
    "a default route": (("route add default via 10.9.0.1",), "10.9.0.1", "up0"),
    "IPv6": (("-6 route add default via fd09::1 dev up0",), "fd09::1", "up0"),
    "a route in another table": (("route add 203.0.113.0/24 via 10.9.0.1 table 77",), "10.9.0.1", "up0"),
    "one of several ways": (
        ("route add default nexthop via 10.9.1.9 dev lan0 nexthop via 10.9.0.1 dev up0",),
        "10.9.0.1",
        "up0",
    ),
    "a next hop of its own": (
        ("nexthop add id 7 via 10.9.0.1 dev up0", "route add default nhid 7"),
        "10.9.0.1",
        "up0",
    ),
    "IPv4 by a neighbour of IPv6": (("route add default via inet6 fd09::1 dev up0",), "fd09::1", "up0"),
}


@pytest.mark.parametrize("which", ROUTES)
def test_the_gateway_of_a_route_is_known(beside: Node, which: str) -> None:
    lines, address, link = ROUTES[which]
    ip(beside, *lines)
    assert known(beside)[address] == ("gateway", link)


def test_a_next_hop_that_routes_name_by_number_alone_is_known(beside: Node) -> None:
    beside.inside("sysctl", "-w", "net.ipv4.nexthop_compat_mode=0")
    ip(beside, "nexthop add id 7 via 10.9.0.1 dev up0", "route add default nhid 7")
    assert known(beside)["10.9.0.1"] == ("gateway", "up0")


NEIGHBOURS = {
    "that answered some time ago": "neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev up0 nud stale",
    "that answered now": "neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev up0 nud reachable",
    "of an operator": "neigh add fd09::1 lladdr 02:00:00:00:00:01 dev up0 nud permanent",
    "with a route of its own": "route add 10.9.0.1/32 dev up0",
    "at the far end of a wire": "addr add 192.0.2.1 peer 10.9.0.1 dev lan0",
}


@pytest.mark.parametrize("which", NEIGHBOURS)
def test_a_machine_is_known(beside: Node, which: str) -> None:
    ip(beside, NEIGHBOURS[which])
    by_route = which == "with a route of its own"
    assert {role for role, _ in known(beside).values()} == {"remote" if by_route else "neighbour"}


def test_one_that_nobody_answered_for_is_not_known(beside: Node) -> None:
    ip(beside, "neigh add 10.9.0.1 dev up0 nud failed")
    assert known(beside) == {}


def test_a_resolver_is_known_if_it_is_on_a_network_of_the_host(beside: Node, tmp_path: Path) -> None:
    own = tmp_path / "resolv.conf"
    own.write_text("# ours\nnameserver 10.9.0.1\nnameserver 198.51.100.1\nnameserver no\nsearch a b\n")
    assert resolvers(str(own)) == [packed_ip("10.9.0.1"), packed_ip("198.51.100.1")]
    asked = (
        "from netloom.kernel import Namespace; from netloom.ops.node.host import read_host; "
        "print([(i.hex(), it.role) for i, it in read_host(Namespace.own()).neighbours.items()])"
    )
    covered = f'mount --bind {own} /etc/resolv.conf && exec "$@"'
    words = ("unshare", "--mount", "sh", "-c", covered, "sh")
    assert beside.inside(*words, sys.executable, "-c", asked).strip() == "[('0a090001', 'resolver')]"


def test_no_container_gets_what_a_machine_beside_the_host_has(beside: Node) -> None:
    ip(beside, "route add default via 10.9.0.1", "-6 route add default via fd09::3 dev up0")
    ip(beside, NEIGHBOURS["that answered some time ago"].replace("10.9.0.1", "10.9.0.4"))
    beside.start("--tick", "0.1")
    assert given(beside, 2) == ["10.9.0.3", "fd09::1", "10.9.0.5", "fd09::4"]
    # As soon as the host knows of one, while the agent runs.
    ip(beside, "route add 203.0.113.0/24 via 10.9.0.6")
    only = beside.config(pools=[{"cidr": "10.9.0.6/32"}])
    assert eventually(lambda: beside.plugin("STATUS", "", only).code == 50)
    assert given(beside, 1) == ["10.9.0.7", "fd09::5"]
    assert beside.audit() == []


def test_an_address_of_a_machine_that_is_asked_for_is_refused_with_whose_it_is(beside: Node) -> None:
    ip(beside, "route add default via 10.9.0.1")
    ip(beside, "neigh add 10.9.0.4 lladdr 02:00:00:00:00:01 dev up0 nud stale")
    beside.start()
    gateway = beside.plugin("ADD", beside.container(), CNI_ARGS="IP=10.9.0.1")
    machine = beside.plugin("ADD", beside.container(), CNI_ARGS="IP=10.9.0.4")
    assert (gateway.code, machine.code) == (101, 101)
    assert "gateway on up0" in gateway.message
    assert "`ip neigh del 10.9.0.4 dev up0`" in machine.message
    assert beside.links() == []


def test_a_route_by_way_of_a_container_keeps_nobody_from_its_address(beside: Node) -> None:
    """As of one that is a VPN's end: it goes with its link, and comes back with its address."""
    beside.start("--tick", "0.1")
    container = beside.container()
    address = beside.add(container, CNI_ARGS="IP=10.9.7.7").addresses[0]
    ip(beside, f"route add 203.0.113.0/24 via {address} dev {beside.link_of(container)} onlink")
    assert known(beside) == {}
    assert beside.info()["findings"] == []


def test_an_attachment_with_the_address_of_a_machine_is_a_finding_until_it_is_gone(beside: Node) -> None:
    beside.start("--tick", "0.1", "--conf-dir", str(conf_dir(beside, beside.config())))
    assert eventually(lambda: is_there(beside))
    container = beside.container()
    assert beside.add(container).addresses[0] == "10.9.0.1"
    ip(beside, "route add default via 10.9.0.1 dev up0 onlink")

    def clashing() -> list[tuple[str, str]]:
        return [(it["subject"], it["severity"]) for it in beside.info()["findings"] if it["code"] == CLASH]

    assert eventually(lambda: clashing() == [("10.9.0.1", "error")])
    assert CLASH in ENTRIES
    assert scrape(beside).of("netloom_findings", code=CLASH) == 1
    beside.delete(container)
    assert eventually(lambda: clashing() == [])


@pytest.mark.parametrize("number", [0, 1], ids=["IPv4", "IPv6"])
def test_an_attachment_whose_address_the_host_got_later_is_a_finding(beside: Node, number: int) -> None:
    beside.start("--tick", "0.1", "--conf-dir", str(conf_dir(beside, beside.config())))
    address = beside.add(beside.container()).addresses[number]

    def clashing() -> list[tuple[str, str]]:
        return [(it["subject"], it["severity"]) for it in beside.info()["findings"] if it["code"] == CLASH]

    ip(beside, f"address add {address} dev lo")
    assert eventually(lambda: clashing() == [(address, "error")])
    ip(beside, f"address del {address} dev lo")
    assert eventually(lambda: clashing() == [])


def test_what_machines_beside_the_host_have_is_not_counted_as_free(beside: Node) -> None:
    ip(beside, "route add default via 10.9.0.1")
    pools = [{"cidr": "10.9.0.0/29"}]
    beside.start("--conf-dir", str(conf_dir(beside, beside.config(pools=pools))))
    assert eventually(lambda: is_there(beside))
    of = {"network": "net", "pool": "10.9.0.0/29"}
    # Of six, the host and its gateway have one each.
    assert scrape(beside).of("netloom_pool_addresses", state="free", **of) == 4
    for command in ("status", "pools"):
        document = json.loads(run(beside, command, "--json"))
        (pool,) = document["pools"] if command == "pools" else document["networks"][0]["pools"]
        assert (pool["capacity"], pool["held"], pool["host"], pool["free"]) == (6, 0, 2, 4)


def run(node: Node, *words: str) -> str:
    """What a command prints, however it ends."""
    own = [f"{name}={value}" for name, value in node.environment().items() if name.startswith("NETLOOM_")]
    where = ("--conf-dir", str(node.directory / "net.d"))
    return node.inside("env", *own, str(NETLOOM), *words, *where, check=False)
