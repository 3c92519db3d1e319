"""The agent's own collection: what a namespace held is given back when that is gone, and not before."""

from __future__ import annotations

import os
import subprocess

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

FAST = ("--grace", "0.5", "--tick", "0.1")


@pytest.fixture
def quick(node: Node) -> Node:
    """A node whose agent collects after half a second."""
    node.start(*FAST)
    return node


def is_released(node: Node) -> bool:
    return node.ledger().places() == [] and list(node.ledger().held()) == []


def test_what_a_dead_namespace_held_is_given_back(quick: Node) -> None:
    container = quick.container()
    quick.add(container)
    quick.remove_container(container)
    assert eventually(lambda: is_released(quick))
    assert quick.counted("leaked") == 1
    assert quick.audit() == []


def test_many_dead_namespaces_are_given_back(quick: Node) -> None:
    containers = [quick.container() for _ in range(20)]
    for container in containers:
        assert quick.ask("ADD", container).status == 0
    for container in containers[5:]:
        quick.remove_container(container)
    assert eventually(lambda: len(quick.ledger().places()) == 5)
    assert quick.audit() == []


def test_nothing_is_given_back_within_the_grace(node: Node) -> None:
    node.start("--grace", "30", "--tick", "0.1")
    container = node.container()
    node.add(container)
    node.remove_container(container)
    assert not eventually(lambda: is_released(node), patience=1)


def test_the_grace_begins_anew_with_an_agent(node: Node) -> None:
    """Two observations are needed, and both by the same agent."""
    node.start("--grace", "30", "--tick", "0.1")
    container = node.container()
    node.add(container)
    node.remove_container(container)
    node.kill()
    node.start("--grace", "30", "--tick", "0.1")
    assert not eventually(lambda: is_released(node), patience=1)


def test_a_namespace_without_a_name_that_lives_on_is_never_given_back(quick: Node) -> None:
    """Somebody holds it: a process in it, or a descriptor."""
    container, other = quick.container(), quick.container()
    quick.add(container)
    address = quick.add(other).addresses[0]
    held = os.open(f"/run/netns/{container}", os.O_RDONLY)
    try:
        quick.remove_container(container)
        assert not eventually(lambda: len(quick.ledger().places()) < 2, patience=1.5)
        assert len(quick.links()) == 2
        inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{held}", "ping", "-n", "-c1", "-W2", address]
        assert subprocess.run(inside, capture_output=True).returncode == 0
    finally:
        os.close(held)
    assert eventually(lambda: len(quick.ledger().places()) == 1)


def test_a_new_namespace_of_the_same_name_is_another(quick: Node) -> None:
    container = quick.container()
    quick.add(container)
    quick.remove_container(container)
    quick.container(container)
    assert eventually(lambda: is_released(quick))
    quick.add(container)
    assert not eventually(lambda: is_released(quick), patience=1)
    assert quick.audit() == []


def test_an_add_that_comes_back_in_time_is_not_collected(node: Node) -> None:
    node.start("--grace", "1.5", "--tick", "0.1")
    container = node.container()
    node.add(container)
    node.remove_container(container)
    # The kernel takes a namespace apart when it has the time.
    assert eventually(lambda: node.links() == [])
    node.container(container)
    node.add(container)
    assert not eventually(lambda: is_released(node), patience=2.5)
    assert node.audit() == []


def test_addresses_of_dead_namespaces_rest(quick: Node) -> None:
    config = quick.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=100)
    container = quick.container()
    quick.add(container, config)
    quick.remove_container(container)
    assert eventually(lambda: is_released(quick))
    done = quick.plugin("ADD", quick.container(), config)
    assert done.status == 1
    assert "1 resting" in done.message


def test_what_is_not_ours_is_left_alone(quick: Node) -> None:
    """Links, routes, tables and namespaces of somebody else, also if they look a little like ours."""
    quick.inside("ip", "link", "add", "loomabc", "type", "veth", "peer", "name", "other0")
    quick.inside("ip", "link", "add", "br0", "type", "bridge")
    quick.inside("ip", "link", "set", "br0", "up")
    quick.inside("ip", "route", "add", "10.9.200.0/24", "dev", "br0")
    quick.inside("ip", "route", "add", "172.20.0.1/32", "dev", "br0", "proto", "78")
    quick.inside("nft", "add table inet mine; add chain inet mine c; add rule inet mine c accept")
    container = quick.container()
    quick.add(container)
    quick.remove_container(container)
    assert eventually(lambda: is_released(quick))
    quick.plugin("GC", config=quick.config_with({"cni.dev/valid-attachments": []}))
    quick.kill()
    quick.start(*FAST)
    assert {"loomabc", "other0", "br0"} <= set(quick.inside("ls", "/proc/sys/net/ipv4/conf").split())
    assert "10.9.200.0/24" in quick.inside("ip", "route")
    assert "172.20.0.1" in quick.inside("ip", "route")
    assert "accept" in quick.inside("nft", "list", "table", "inet", "mine")


def test_what_is_given_back_is_named_in_the_log(quick: Node) -> None:
    container = quick.container()
    quick.add(container)
    (place,) = quick.ledger().places()
    quick.remove_container(container)
    assert eventually(lambda: is_released(quick))
    quick.stop()
    assert str(place.key) in quick.log()
