"""What the host has already is not given to a container, and what is the agent's own stays in place."""

from __future__ import annotations

import os

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel


@pytest.fixture
def crowded(node: Node) -> Node:
    """A node whose own addresses are in the containers' pools."""
    node.inside("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
    node.inside("ip", "addr", "add", "10.9.0.2/24", "dev", "up0")
    node.inside("ip", "addr", "add", "fd09::2/64", "dev", "up0", "nodad")
    node.inside("ip", "link", "set", "up0", "up")
    node.start()
    return node


def test_no_container_gets_an_address_of_the_host(crowded: Node) -> None:
    given = [address for _ in range(3) for address in crowded.add(crowded.container()).addresses]
    assert given == ["10.9.0.1", "fd09::1", "10.9.0.3", "fd09::3", "10.9.0.4", "fd09::4"]
    assert crowded.audit() == []


def test_an_address_of_the_host_cannot_be_asked_for(crowded: Node) -> None:
    done = crowded.plugin("ADD", crowded.container(), CNI_ARGS="IP=10.9.0.2")
    assert done.code == 101
    assert crowded.links() == []


def test_a_pool_of_which_the_host_has_the_only_address_is_exhausted(crowded: Node) -> None:
    config = crowded.config(pools=[{"cidr": "10.9.0.2/32"}])
    assert crowded.plugin("STATUS", "", config).code == 50
    assert crowded.plugin("ADD", crowded.container(), config).code == 11


def test_the_route_to_the_next_hop_comes_back(running: Node) -> None:
    route = ("169.254.1.1", "table", "local")
    running.inside("ip", "route", "del", "local", *route)
    assert eventually(lambda: "169.254.1.1" in running.inside("ip", "route", "show", "table", "local"))


def test_a_journal_that_was_removed_takes_no_more_attachments(node: Node) -> None:
    node.start("--tick", "0.1")
    node.add(node.container())
    journal = node.state_dir / "journal.db"
    os.rename(journal, node.state_dir / "elsewhere.db")
    assert eventually(lambda: node.plugin("STATUS").code == 50)
    assert node.plugin("ADD", node.container()).code == 5
    os.rename(node.state_dir / "elsewhere.db", journal)
    assert eventually(lambda: node.plugin("STATUS").code == 0)
    node.add(node.container())
