"""What a network or a caller says of the container's interface: settings, its MAC, its MTU, its queues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..fixtures.node import Node, Outcome, eventually

pytestmark = pytest.mark.kernel

MACS = tuple(f"02:00:00:00:00:{number:02x}" for number in range(1, 5))


def value(node: Node, container: str, key: str) -> str:
    return node.in_container(container, "cat", f"/proc/sys/{key}").stdout.strip()


def attached(node: Node, **keys: Any) -> str:
    container = node.container()
    node.add(container, node.config(**keys))
    return container


# Settings.


@pytest.mark.parametrize(
    ("name", "given", "path"),
    [
        ("net.core.somaxconn", "500", "net/core/somaxconn"),
        ("net/core/somaxconn", "500", "net/core/somaxconn"),
        ("net.ipv4.conf.IFNAME.arp_filter", "1", "net/ipv4/conf/eth0/arp_filter"),
        ("net/ipv6/conf/IFNAME/hop_limit", "33", "net/ipv6/conf/eth0/hop_limit"),
        ("net.ipv4.neigh.IFNAME.ucast_solicit", "5", "net/ipv4/neigh/eth0/ucast_solicit"),
        ("net.ipv4.conf.all.log_martians", "1", "net/ipv4/conf/all/log_martians"),
        ("net.ipv4.ip_local_port_range", "20000 30000", "net/ipv4/ip_local_port_range"),
        ("net.ipv4.ping_group_range", "0 2147483647", "net/ipv4/ping_group_range"),
        ("net.ipv4.tcp_keepalive_time", "77", "net/ipv4/tcp_keepalive_time"),
        ("net.unix.max_dgram_qlen", "77", "net/unix/max_dgram_qlen"),
    ],
)
def test_a_setting_is_the_containers_own(shared: Node, name: str, given: str, path: str) -> None:
    container, other = attached(shared, sysctl={name: given}), attached(shared)
    assert value(shared, container, path).split() == given.split()
    assert value(shared, other, path).split() != given.split()


def test_the_interface_of_a_setting_may_have_dots_in_its_name(shared: Node) -> None:
    container = attached(shared, interface="eth0.7", sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1"})
    assert value(shared, container, "net/ipv4/conf/eth0.7/arp_filter") == "1"


def test_a_caller_may_add_settings_and_has_the_last_word(shared: Node) -> None:
    container = attached(
        shared,
        sysctl={"net.core.somaxconn": "500", "net.ipv4.tcp_keepalive_time": "77"},
        args={"cni": {"sysctl": {"net.core.somaxconn": "600", "net.ipv4.tcp_keepalive_intvl": "7"}}},
    )
    keys = ("net/core/somaxconn", "net/ipv4/tcp_keepalive_time", "net/ipv4/tcp_keepalive_intvl")
    assert [value(shared, container, key) for key in keys] == ["600", "77", "7"]


def test_a_caller_has_the_last_word_however_the_name_is_written(shared: Node) -> None:
    container = attached(
        shared,
        sysctl={"net.core.somaxconn": "500"},
        args={"cni": {"sysctl": {"net/core/somaxconn": "600"}}},
    )
    assert value(shared, container, "net/core/somaxconn") == "600"
    assert shared.audit() == []


@pytest.mark.parametrize(
    "name",
    [
        "kernel.hostname",
        "vm.swappiness",
        "net.core.rmem_max",
        "net.ipv4.conf.default.arp_filter",
        "net.ipv4.conf.eth0.arp_filter",
        "net.ipv4.conf.lo.arp_filter",
        "net.ipv4.conf.all.route_localnet",
        "net.ipv4.conf.IFNAME.route_localnet",
        "net.ipv6.conf.all.disable_ipv6",
        "net/ipv6/conf/IFNAME/disable_ipv6",
        "net/ipv4/conf/all/../../../core/rmem_max",
        "net/ipv4/tcp_x/../../core/rmem_max",
        "net.ipv4.tcp_\0",
        "net/ipv4/tcp_ mem",
        "net/ipv4/conf/all/",
        "/net/core/somaxconn",
        "somaxconn",
        "",
    ],
)
def test_a_setting_that_is_not_the_networks_to_give_is_refused_and_named(lasting: Node, name: str) -> None:
    for keys in ({"sysctl": {name: "1"}}, {"args": {"cni": {"sysctl": {name: "1"}}}}):
        done = lasting.plugin("ADD", lasting.container(), lasting.config(**keys))
        assert done.code == 7
        assert "sysctl" in done.document["msg"]
        # Dots may have become slashes.
        assert name.split("\0")[0].replace(".", "/") in done.document["msg"].replace(".", "/")
    assert lasting.ledger().places() == []


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("net.ipv4.conf.IFNAME.arp_filter", "banana"),
        ("net.core.somaxconn", "-5"),
        ("net.ipv4.tcp_congestion_control", "nosuch"),
        ("net.ipv4.tcp_nosuch", "1"),
        ("net.ipv4.conf.IFNAME.nosuch", "1"),
    ],
)
def test_a_setting_that_the_kernel_refuses_is_an_error_and_nothing_is_left(
    lasting: Node, name: str, given: str
) -> None:
    container = lasting.container()
    config = lasting.config(
        sysctl={"net.ipv4.tcp_keepalive_time": "77", name: given},
        isolation="networks",
        ipMasq=True,
        bandwidth={"egressRate": 1_000_000},
    )
    done = lasting.plugin("ADD", container, config)
    assert done.code == 100
    assert name.replace("IFNAME", "eth0").replace(".", "/") in done.document["msg"]
    assert value(lasting, container, "net/ipv4/tcp_keepalive_time") != "77"
    assert "eth0" not in lasting.in_container(container, "ip", "link").stdout
    assert [it for it in lasting.inside("ip", "link").split() if it.startswith(("loom", "lque"))] == []
    assert lasting.ledger().places() == []
    assert lasting.audit() == []


@pytest.mark.parametrize("given", ["", " ", "1\n2"])
def test_a_value_that_is_none_is_refused_and_named(lasting: Node, given: str) -> None:
    done = lasting.plugin("ADD", lasting.container(), lasting.config(sysctl={"net.core.somaxconn": given}))
    assert done.code == 7
    assert "somaxconn" in done.document["msg"]


def test_check_tells_of_a_setting_that_was_changed(shared: Node) -> None:
    container = shared.container()
    keys: dict[str, Any] = {"sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "500"}}
    result = shared.add(container, shared.config(**keys)).document

    def check() -> Outcome:
        return shared.plugin("CHECK", container, shared.config(**keys, prevResult=result))

    assert check().status == 0
    shared.in_container(container, "sysctl", "-w", "net.core.somaxconn=700")
    done = check()
    assert done.code == 103
    assert "net/core/somaxconn" in done.message


def test_a_setting_that_somebody_changed_is_left_alone(node: Node) -> None:
    node.start("--tick", "0.1")
    container = attached(node, sysctl={"net.core.somaxconn": "500"})
    node.in_container(container, "sysctl", "-w", "net.core.somaxconn=700")
    # Whoever looks after the attachment has been there when something else is back.
    node.in_container(container, "ip", "route", "del", "default")
    node.inside("ip", "route", "del", "10.9.0.1/32")
    assert eventually(lambda: node.counted("repaired") >= 1)
    assert value(node, container, "net/core/somaxconn") == "700"


# The link.


def mac(node: Node, container: str) -> str:
    listed = node.in_container(container, "ip", "-j", "link", "show", "eth0").stdout
    return str(value_of_link(listed, "address"))


def value_of_link(listed: str, key: str) -> Any:
    (link,) = json.loads(listed)
    return link[key]


def test_a_network_may_have_a_mac(shared: Node) -> None:
    assert mac(shared, attached(shared, mac=MACS[0])) == MACS[0]


@pytest.mark.parametrize("given", [MACS[0].upper(), MACS[0].replace(":", "-")])
def test_a_mac_may_be_written_otherwise(shared: Node, given: str) -> None:
    assert mac(shared, attached(shared, mac=given)) == MACS[0]


@pytest.mark.parametrize("first", [0, 1, 2, 3], ids=["capability", "args", "CNI_ARGS", "network"])
def test_of_macs_the_one_of_this_invocation_goes_first(shared: Node, first: int) -> None:
    """The capability's, then that of args, then that of CNI_ARGS, then the network's."""
    ways: list[dict[str, Any]] = [
        {"runtimeConfig": {"mac": MACS[0]}},
        {"args": {"cni": {"mac": MACS[1]}}},
        {},
        {"mac": MACS[3]},
    ]
    keys = {key: value for way in ways[first:] for key, value in way.items()}
    container = shared.container()
    shared.add(container, shared.config(**keys), **({"CNI_ARGS": f"MAC={MACS[2]}"} if first <= 2 else {}))
    assert mac(shared, container) == MACS[first]


def mtus(node: Node, container: str) -> set[int]:
    return {value_of_link(listed, "mtu") for listed in both_ends(node, container)}


def both_ends(node: Node, container: str) -> list[str]:
    return [
        node.inside("ip", "-j", "link", "show", node.link_of(container)),
        node.in_container(container, "ip", "-j", "link", "show", "eth0").stdout,
    ]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"mtu": 1400}, 1400),
        ({"mtu": 1400, "args": {"cni": {"mtu": 1300}}}, 1300),
        ({"args": {"cni": {"mtu": 1300}}}, 1300),
        ({"mtu": 1400, "args": {"cni": {"mtu": 0}}}, 1500),
    ],
    ids=json.dumps,
)
def test_both_ends_have_the_mtu_of_the_caller_or_of_the_network(
    shared: Node, keys: dict[str, Any], expected: int
) -> None:
    assert mtus(shared, attached(shared, **keys)) == {expected}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"txQLen": 5000}, 5000),
        ({"txQLen": 0}, 0),
        ({"txQLen": 5000, "args": {"cni": {"txQLen": 7}}}, 7),
        ({}, 1000),
    ],
    ids=json.dumps,
)
def test_both_ends_have_queues_of_the_length_that_is_asked_for(
    shared: Node, keys: dict[str, Any], expected: int
) -> None:
    ends = both_ends(shared, attached(shared, **keys))
    assert {json.loads(listed)[0].get("txqlen", 0) for listed in ends} == {expected}
