"""Several interfaces, several plugins: each has its part of the result and of the routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel


@pytest.fixture
def running(shared: Node) -> Node:
    return shared


SECOND: list[dict[str, Any]] = [{"cidr": "10.10.0.0/16"}, {"cidr": "fd10::/64"}]


def routes(node: Node, container: str, *words: str) -> list[str]:
    listed = json.loads(node.in_container(container, "ip", "-j", *words, "route").stdout or "[]")
    return [f"{route['dst']} {route['dev']}" for route in listed]


@pytest.fixture
def second(running: Node) -> bytes:
    """The config of another network."""
    return running.config("second", pools=SECOND)


def test_a_container_is_reached_at_each_of_its_interfaces(running: Node, second: bytes) -> None:
    """And answers by the same one: by another, the answer would be dropped as forged."""
    container, other = running.container(), running.container()
    addresses = running.add(container).addresses + running.add(container, second, ifname="net1").addresses
    running.add(other)
    assert len(addresses) == 4
    assert [address for address in addresses if not running.ping(other, address)] == []
    assert running.audit() == []


def test_two_containers_with_two_interfaces_reach_each_other_everywhere(running: Node, second: bytes) -> None:
    one, other = running.container(), running.container()
    for container in (one, other):
        first = running.add(container).addresses
        more = running.add(container, second, ifname="net1").addresses
    assert [address for address in first + more if not running.ping(one, address)] == []


def test_the_first_interface_has_the_default_route(running: Node, second: bytes) -> None:
    container = running.container()
    running.add(container)
    result = running.add(container, second, ifname="net1").document
    assert "default eth0" in routes(running, container)
    assert "default net1" not in routes(running, container)
    assert [route["dst"] for route in result["routes"]] == ["10.10.0.0/16", "fd10::/64"]
    assert "10.10.0.0/16 net1" in routes(running, container)
    assert "fd10::/64 net1" in routes(running, container, "-6")


def test_an_interface_may_be_told_to_have_no_default_route(running: Node) -> None:
    container = running.container()
    result = running.add(container, running.config(defaultRoute=False)).document
    assert "0.0.0.0/0" not in [route["dst"] for route in result["routes"]]
    assert "default eth0" not in routes(running, container)


def test_routes_of_the_config_lead_to_the_interface(running: Node) -> None:
    container = running.container()
    config = running.config(routes=[{"dst": "192.0.2.0/24"}, {"dst": "2001:db8::/32"}])
    result = running.add(container, config).document
    assert {"192.0.2.0/24", "2001:db8::/32"} <= {route["dst"] for route in result["routes"]}
    assert "192.0.2.0/24 eth0" in routes(running, container)
    assert "2001:db8::/32 eth0" in routes(running, container, "-6")


def test_del_of_the_first_interface_leaves_the_second_at_work(running: Node, second: bytes) -> None:
    container, other = running.container(), running.container()
    running.add(container)
    addresses = running.add(container, second, ifname="net1").addresses
    running.add(other)
    running.delete(container)
    assert [address for address in addresses if not running.ping(other, address)] == []
    assert running.audit() == []


def test_interfaces_may_come_and_go_in_any_order(running: Node, second: bytes) -> None:
    container, other = running.container(), running.container()
    running.add(other)
    running.add(container)
    running.add(container, second, ifname="net1")
    running.delete(container)
    added = running.add(container, running.config(cooldown=0), ifname="net2").addresses
    assert [address for address in added if not running.ping(other, address)] == []
    running.delete(container, second, ifname="net1")
    running.delete(container, running.config(cooldown=0), ifname="net2")
    assert len(running.links()) == 1
    assert running.in_container(container, "ip", "rule").stdout.count("lookup") == 3
    assert running.audit() == []


def test_a_vm_and_its_container_may_have_the_same_id_in_two_namespaces(running: Node) -> None:
    one, other = running.container(), running.container()
    first = running.add("shared", CNI_NETNS=f"/run/netns/{one}")
    second = running.add("shared", ifname="eth1", CNI_NETNS=f"/run/netns/{other}")
    assert not set(first.addresses) & set(second.addresses)
    assert "default eth1" in routes(running, other)
    assert running.audit() == []


def test_addresses_work_when_add_has_answered(running: Node) -> None:
    """Nobody else can have them: there is nothing to wait for."""
    container = running.container()
    running.add(container)
    tentative = running.in_container(container, "ip", "-6", "addr", "show", "scope", "global", "tentative")
    assert tentative.stdout == ""


def test_both_ends_have_a_mac_that_udev_does_not_replace(running: Node) -> None:
    """It replaces what the kernel made up; what was set (3) it leaves alone."""
    container = running.container()
    running.add(container)
    (host,) = running.links()
    inside = running.in_container(container, "cat", "/sys/class/net/eth0/addr_assign_type").stdout
    mount = f"mount -t sysfs none /sys && cat /sys/class/net/{host}/addr_assign_type"
    outside = running.inside("unshare", "--mount", "sh", "-c", mount)
    assert (inside.strip(), outside.strip()) == ("3", "3")


# Chains.


def test_what_plugins_before_ours_made_comes_first_and_indexes_are_right(running: Node) -> None:
    before: dict[str, Any] = {
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "dummy0", "sandbox": "/x"}, {"name": "br0"}, {"name": "veth7"}],
        "ips": [{"address": "192.0.2.7/24", "interface": 0}],
        "routes": [{"dst": "198.51.100.0/24", "gw": "192.0.2.1"}],
        "dns": {"nameservers": ["192.0.2.53"]},
    }
    result = running.add(running.container(), running.config(prevResult=before)).document
    assert [it["name"] for it in result["interfaces"]][:3] == ["dummy0", "br0", "veth7"]
    assert [ip["interface"] for ip in result["ips"]] == [0, 4, 4]
    assert result["interfaces"][4]["name"] == "eth0"
    assert result["routes"][0] == before["routes"][0]
    assert result["dns"] == before["dns"]


def test_a_default_route_of_a_plugin_before_ours_is_not_contested(running: Node) -> None:
    before = {"cniVersion": "1.1.0", "ips": [], "routes": [{"dst": "0.0.0.0/0", "gw": "192.0.2.1"}]}
    container = running.container()
    running.add(container, running.config(prevResult=before))
    assert "default eth0" not in routes(running, container)


def test_the_configs_dns_goes_before_that_of_plugins_before_ours(running: Node) -> None:
    before = {"cniVersion": "1.1.0", "dns": {"nameservers": ["192.0.2.53"]}}
    config = running.config(prevResult=before, dns={"nameservers": ["10.9.0.53"]})
    assert running.add(running.container(), config).document["dns"] == {"nameservers": ["10.9.0.53"]}
