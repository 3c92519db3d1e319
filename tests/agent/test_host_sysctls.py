"""Settings that distributions and operators have on their hosts."""

from __future__ import annotations

from typing import Any

import pytest

from netloom.ipam import PoolConfig, parse_pools
from netloom.networks.host import Host

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

ONLY_IPV4 = [{"cidr": "10.9.0.0/16"}]


def settle(node: Node, *settings: str) -> None:
    for setting in settings:
        node.inside("sysctl", "-w", setting)


def test_strict_reverse_path_filtering_lets_containers_talk(node: Node) -> None:
    settle(node, "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1")
    node.start()
    one, other = node.container(), node.container()
    node.add(one)
    addresses = node.add(other).addresses
    second = node.add(other, node.config("second", pools=[{"cidr": "10.10.0.0/16"}]), ifname="net1").addresses
    assert [address for address in addresses + second if not node.ping(one, address)] == []


def test_on_a_host_without_ipv6_containers_have_ipv4(node: Node) -> None:
    settle(node, "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    node.start()
    config = node.config(pools=ONLY_IPV4)
    one, other = node.container(), node.container()
    node.add(one, config)
    address = node.add(other, config).addresses[0]
    assert node.ping(one, address)
    node.delete(one, config)
    assert node.audit(ONLY_IPV4) == []


@pytest.mark.parametrize("where", ["all", "default"])
def test_where_new_links_have_no_ipv6_a_network_with_ipv6_is_refused_before_anything_is_done(
    node: Node, where: str
) -> None:
    settle(node, f"net.ipv6.conf.{where}.disable_ipv6=1")
    node.start(environment={"NETLOOM_FAILPOINT": "add.reserved:kill"})
    done, status = node.plugin("ADD", node.container()), node.plugin("STATUS")
    assert (done.code, status.code) == (100, 50)
    for message in (done.message, status.message):
        assert f"net.ipv6.conf.{where}.disable_ipv6" in message
        assert "fd09::/64" in message
    assert node.links() == []
    assert node.ledger().places() == []
    assert node.plugin("STATUS", config=node.config(pools=ONLY_IPV4)).status == 0


def test_ipv6_that_is_switched_on_again_is_seen_while_the_agent_runs(node: Node) -> None:
    settle(node, "net.ipv6.conf.all.disable_ipv6=1")
    node.start("--tick", "0.1")
    assert node.plugin("STATUS").code == 50
    settle(node, "net.ipv6.conf.all.disable_ipv6=0")
    assert eventually(lambda: node.plugin("STATUS").status == 0)
    node.add(node.container())
    settle(node, "net.ipv6.conf.default.disable_ipv6=1")
    assert eventually(lambda: node.plugin("STATUS").code == 50)


def test_where_only_new_links_have_ipv6_containers_have_it(node: Node) -> None:
    """`all` sets `default` along when it is written, and says nothing of new links later."""
    settle(node, "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=0")
    node.start()
    one, other = node.container(), node.container()
    node.add(one)
    addresses = node.add(other).addresses
    assert [address for address in addresses if not node.ping(one, address)] == []
    # The host's loopback has none, and so no host ports of that family.
    assert [it.code for it in node.audit()] == ["node-address-missing"]


def test_an_attachment_with_ipv6_is_repeated_though_new_ones_would_be_refused(node: Node) -> None:
    node.start("--tick", "0.1")
    container = node.container()
    addresses = node.add(container).addresses
    settle(node, "net.ipv6.conf.default.disable_ipv6=1")
    assert eventually(lambda: node.plugin("STATUS").code == 50)
    assert node.add(container).addresses == addresses


@pytest.fixture
def narrow(node: Node) -> Node:
    """A node whose uplink takes less than IPv6 needs."""
    node.inside("ip", "link", "add", "up0", "mtu", "1200", "type", "veth", "peer", "name", "up1")
    node.inside("ip", "addr", "add", "192.0.2.2/24", "dev", "up0")
    node.inside("ip", "link", "set", "up1", "up")
    node.inside("ip", "link", "set", "up0", "up")
    node.inside("ip", "route", "add", "default", "via", "192.0.2.1")
    node.start("--tick", "0.1")
    return node


def test_behind_an_uplink_too_narrow_for_ipv6_a_network_with_ipv6_is_refused_before_anything_is_done(
    narrow: Node,
) -> None:
    done, status = narrow.plugin("ADD", narrow.container()), narrow.plugin("STATUS")
    assert (done.code, status.code) == (100, 50)
    for message in (done.message, status.message):
        assert [part for part in ("up0", "1200", "1280", "fd09::/64") if part not in message] == []
    assert narrow.links() == []
    assert narrow.ledger().places() == []
    narrow.inside("ip", "link", "set", "up0", "mtu", "1280")
    assert eventually(lambda: narrow.plugin("STATUS").status == 0)


@pytest.mark.parametrize("keys", [{"pools": ONLY_IPV4}, {"mtu": 1280}], ids=["IPv4", "its own MTU"])
def test_behind_an_uplink_too_narrow_for_ipv6_other_networks_work(narrow: Node, keys: dict[str, Any]) -> None:
    config = narrow.config(**keys)
    assert narrow.plugin("STATUS", config=config).status == 0
    narrow.add(narrow.container(), config)


def test_a_kernel_without_ipv6_says_so() -> None:
    pools = parse_pools([PoolConfig("10.9.0.0/16"), PoolConfig("fd09::/64")])
    without = Host(ipv6=False)
    assert "kernel" in str(without.lacks(pools, None))
    assert without.lacks(pools[:1], None) is None


def test_a_container_without_ipv6_gets_it_with_its_address(running: Node) -> None:
    """Some runtimes switch it off in every container."""
    one, other = running.container(), running.container()
    for container in (one, other):
        for where in ("all", "default"):
            running.in_container(container, "sysctl", "-w", f"net.ipv6.conf.{where}.disable_ipv6=1")
    running.add(one)
    addresses = running.add(other).addresses
    assert [address for address in addresses if not running.ping(one, address)] == []
    assert running.audit() == []


def test_a_host_that_accepts_router_advertisements_everywhere_takes_none_of_containers(node: Node) -> None:
    settle(node, "net.ipv6.conf.all.accept_ra=2", "net.ipv6.conf.default.accept_ra=2")
    node.start()
    node.add(node.container())
    (link,) = node.links()
    assert node.inside("sysctl", "-n", f"net.ipv6.conf.{link}.accept_ra").strip() == "0"


def test_a_firewall_of_the_host_is_left_as_it_is(node: Node) -> None:
    node.inside(
        "nft", "add table inet filter; add chain inet filter f { type filter hook forward priority 0; }"
    )
    before = node.inside("nft", "-s", "list", "table", "inet", "filter")
    node.start()
    container = node.container()
    node.add(container)
    node.delete(container)
    node.stop()
    assert node.inside("nft", "-s", "list", "table", "inet", "filter") == before


def test_a_bridge_of_another_runtime_with_the_same_subnet_is_no_hindrance(running: Node) -> None:
    """The host's route to a container is longer than that to a subnet."""
    running.inside("ip", "link", "add", "docker0", "type", "bridge")
    running.inside("ip", "addr", "add", "10.9.255.254/16", "dev", "docker0")
    running.inside("ip", "link", "set", "docker0", "up")
    one, other = running.container(), running.container()
    running.add(one)
    address = running.add(other).addresses[0]
    assert running.ping(one, address)
