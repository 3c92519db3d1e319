"""Addresses, MACs and DNS that the caller asks for, by every way that CNI has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel


@pytest.fixture
def running(shared: Node) -> Node:
    return shared


@pytest.mark.parametrize(
    ("keys", "args"),
    [
        ({}, "IP=10.9.3.3,fd09::33"),
        ({"args": {"cni": {"ips": ["10.9.3.3", "fd09::33"]}}}, ""),
        ({"runtimeConfig": {"ips": ["10.9.3.3/16", "fd09::33/64"]}}, ""),
        ({"args": {"cni": {"ips": ["10.9.3.3"]}}, "runtimeConfig": {"ips": ["fd09::33"]}}, "IP=10.9.3.3"),
    ],
    ids=["CNI_ARGS", "args.cni", "capability", "all of them"],
)
def test_an_address_that_is_asked_for_is_given(running: Node, keys: dict[str, Any], args: str) -> None:
    container = running.container()
    added = running.add(container, running.config(**keys), CNI_ARGS=args)
    assert added.addresses == ["10.9.3.3", "fd09::33"]
    assert running.audit() == []


def test_of_a_family_that_is_not_asked_for_any_address_is_given(running: Node) -> None:
    added = running.add(running.container(), CNI_ARGS="IP=10.9.3.3")
    assert added.addresses[0] == "10.9.3.3"
    assert added.addresses[1].startswith("fd09::")


def test_an_address_that_is_taken_is_refused(running: Node) -> None:
    running.add(running.container(), CNI_ARGS="IP=10.9.3.3")
    done = running.plugin("ADD", running.container(), CNI_ARGS="IP=10.9.3.3")
    assert done.status == 1
    assert "10.9.3.3" in done.message
    assert len(running.ledger().places()) == 1


@pytest.mark.parametrize(
    "ip",
    ["10.8.0.1", "10.9.0.0", "10.9.255.255", "fd08::1", "127.0.0.1", "::ffff:10.9.0.1", "x", "10.9.0.5,x"],
)
def test_an_address_that_no_pool_can_give_is_code_4(running: Node, ip: str) -> None:
    done = running.plugin("ADD", running.container(), CNI_ARGS=f"IP={ip}")
    assert done.code == 4
    assert running.ledger().places() == []


def test_an_address_that_rests_may_be_asked_for(running: Node) -> None:
    container = running.container()
    running.add(container, CNI_ARGS="IP=10.9.3.3")
    running.delete(container, CNI_ARGS="IP=10.9.3.3")
    assert running.add(container, CNI_ARGS="IP=10.9.3.3").addresses[0] == "10.9.3.3"


@pytest.mark.parametrize(
    ("keys", "args"),
    [
        ({}, "MAC=02:11:22:33:44:55"),
        ({"args": {"cni": {"mac": "02:11:22:33:44:55"}}}, ""),
        ({"runtimeConfig": {"mac": "02-11-22-33-44-55"}}, ""),
        ({"runtimeConfig": {"mac": "02:11:22:33:44:55"}}, "MAC=02:99:99:99:99:99"),
    ],
    ids=["CNI_ARGS", "args.cni", "capability with dashes", "the capability goes before the arguments"],
)
def test_a_mac_that_is_asked_for_is_given(running: Node, keys: dict[str, Any], args: str) -> None:
    container = running.container()
    result = running.add(container, running.config(**keys), CNI_ARGS=args).document
    assert result["interfaces"][1]["mac"] == "02:11:22:33:44:55"
    (link,) = json.loads(running.in_container(container, "ip", "-j", "link", "show", "eth0").stdout)
    assert link["address"] == "02:11:22:33:44:55"


def test_the_dns_of_the_config_is_in_the_result(running: Node) -> None:
    dns = {"nameservers": ["10.9.0.53"], "domain": "example.org", "search": ["a.example"], "options": ["x"]}
    assert running.add(running.container(), running.config(dns=dns)).document["dns"] == dns


def test_the_dns_of_the_capability_goes_before_the_configs(running: Node) -> None:
    config = running.config(
        dns={"nameservers": ["10.9.0.53"], "domain": "example.org"},
        runtimeConfig={"dns": {"servers": ["10.9.0.54"], "searches": ["b.example"], "options": ["ndots:2"]}},
    )
    assert running.add(running.container(), config).document["dns"] == {
        "nameservers": ["10.9.0.54"],
        "domain": "example.org",
        "search": ["b.example"],
        "options": ["ndots:2"],
    }


def test_a_small_mtu_is_for_ipv4_alone(running: Node) -> None:
    container = running.container()
    done = running.plugin("ADD", container, running.config(mtu=1279))
    assert done.code == 7
    assert "1280" in done.document["msg"]
    running.add(container, running.config(mtu=576, pools=[{"cidr": "10.9.0.0/16"}]))
    assert running.audit() == []


@pytest.mark.parametrize("mtu", [1280, 1400, 9000])
def test_the_mtu_of_the_config_is_that_of_both_ends(running: Node, mtu: int) -> None:
    container = running.container()
    result = running.add(container, running.config(mtu=mtu)).document
    assert [it["mtu"] for it in result["interfaces"]] == [mtu, mtu]
    (inside,) = json.loads(running.in_container(container, "ip", "-j", "link", "show", "eth0").stdout)
    (host,) = json.loads(running.inside("ip", "-j", "link", "show", running.links()[0]))
    assert (inside["mtu"], host["mtu"]) == (mtu, mtu)


def test_the_mtu_of_the_uplink_is_the_default(node: Node) -> None:
    node.inside("ip", "link", "add", "up0", "mtu", "1337", "type", "bridge")
    node.inside("ip", "link", "set", "up0", "up")
    node.inside("ip", "addr", "add", "192.0.2.2/24", "dev", "up0")
    node.inside("ip", "route", "add", "default", "via", "192.0.2.1")
    node.start()
    result = node.add(node.container()).document
    assert result["interfaces"][1]["mtu"] == 1337


def test_an_interface_may_have_another_name_than_the_runtime_gives(running: Node) -> None:
    container = running.container()
    result = running.add(container, running.config(interface="data0")).document
    assert result["interfaces"][1]["name"] == "data0"
    assert "data0" in running.in_container(container, "ip", "link").stdout
    running.delete(container)
    assert "data0" not in running.in_container(container, "ip", "link").stdout
    assert running.audit() == []
