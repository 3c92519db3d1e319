"""Settings that distributions and operators have on their hosts."""

from __future__ import annotations

import pytest

from .stage import Node

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


def test_on_a_host_without_ipv6_a_network_with_ipv6_fails_whole_and_says_why(node: Node) -> None:
    settle(node, "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    node.start()
    done = node.plugin("ADD", node.container())
    assert done.code == 100
    assert "IPv6 is disabled" in done.message
    assert node.links() == []
    assert node.ledger().places() == []
    assert node.audit() == []


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
