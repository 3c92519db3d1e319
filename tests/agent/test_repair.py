"""Drift: what an attachment loses comes back by itself; what somebody changed on purpose stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel


class Attached(NamedTuple):
    node: Node
    container: str
    host: str
    peer: str
    peers_address: str

    def inside(self, *words: str) -> None:
        self.node.in_container(self.container, *words)

    def outside(self, *words: str) -> None:
        self.node.inside(*words)

    def is_whole(self) -> bool:
        return self.node.audit() == []


@pytest.fixture
def attached(node: Node) -> Attached:
    """Two containers, on a node that looks after them often."""
    node.start("--tick", "0.1", "--grace", "60")
    container, peer = node.container(), node.container()
    added = node.add(container)
    return Attached(
        node, container, added.document["interfaces"][0]["name"], peer, node.add(peer).addresses[0]
    )


Loss = Callable[[Attached], object]

LOSSES: list[tuple[str, Loss]] = [
    ("the link, from inside", lambda it: it.inside("ip", "link", "del", "eth0")),
    ("the link, from outside", lambda it: it.outside("ip", "link", "del", it.host)),
    ("the host's route", lambda it: it.outside("ip", "route", "del", "10.9.0.1/32")),
    ("the host's other route", lambda it: it.outside("ip", "-6", "route", "del", "fd09::1/128")),
    (
        "a source",
        lambda it: it.outside("nft", f"delete element inet netloom sources4 {{ {it.host} . 10.9.0.1 }}"),
    ),
    ("the host's neighbour", lambda it: it.outside("ip", "neigh", "del", "fd09::1", "dev", it.host)),
    ("the containers address", lambda it: it.inside("ip", "addr", "del", "10.9.0.1/32", "dev", "eth0")),
    ("the container's default route", lambda it: it.inside("ip", "route", "del", "default")),
    ("the neighbour", lambda it: it.inside("ip", "neigh", "del", "169.254.1.1", "dev", "eth0")),
    ("the link is down, outside", lambda it: it.outside("ip", "link", "set", it.host, "down")),
    ("the link is down, inside", lambda it: it.inside("ip", "link", "set", "eth0", "down")),
]


@pytest.mark.parametrize("loss", [it[1] for it in LOSSES], ids=[it[0] for it in LOSSES])
def test_what_is_lost_comes_back_and_is_counted(attached: Attached, loss: Loss) -> None:
    loss(attached)
    assert eventually(lambda: attached.node.counted("repaired") >= 1)
    assert eventually(attached.is_whole), attached.node.audit()
    assert attached.node.ping(attached.container, attached.peers_address)


def test_a_flushed_ruleset_comes_back_and_is_counted(attached: Attached) -> None:
    attached.outside("nft", "flush", "ruleset")
    assert eventually(lambda: attached.node.counted("tables") == 1)
    assert eventually(attached.is_whole)
    assert attached.node.ping(attached.container, attached.peers_address)


def test_a_deleted_table_comes_back_with_all_elements(attached: Attached) -> None:
    attached.outside("nft", "delete", "table", "inet", "netloom")
    assert eventually(attached.is_whole)


def test_the_tables_of_others_do_not_come_back(attached: Attached) -> None:
    attached.outside("nft", "add", "table", "inet", "mine")
    attached.outside("nft", "flush", "ruleset")
    assert eventually(attached.is_whole)
    assert "mine" not in attached.node.inside("nft", "list", "tables")


def test_an_add_while_the_table_is_gone_succeeds_later_at_the_latest(attached: Attached) -> None:
    attached.outside("nft", "delete", "table", "inet", "netloom")
    container = attached.node.container()
    assert eventually(lambda: attached.node.plugin("ADD", container).status == 0)
    assert eventually(attached.is_whole)


@pytest.mark.parametrize(
    "change",
    [["address", "02:00:00:00:00:09"], ["mtu", "1400"]],
    ids=["the mac", "the mtu"],
)
def test_what_somebody_changed_is_left_alone(attached: Attached, change: list[str]) -> None:
    attached.inside("ip", "link", "set", "eth0", *change)
    assert not eventually(
        lambda: change[1] not in attached.node.in_container(attached.container, "ip", "link").stdout,
        patience=1.5,
    )


def test_routes_that_somebody_added_are_left_alone(attached: Attached) -> None:
    attached.inside("ip", "route", "add", "192.0.2.0/24", "dev", "eth0")
    attached.outside("ip", "route", "add", "192.0.2.0/24", "dev", attached.host)
    attached.inside("ip", "route", "del", "default")
    assert eventually(attached.is_whole)
    assert "192.0.2.0/24" in attached.node.in_container(attached.container, "ip", "route").stdout
    assert "192.0.2.0/24" in attached.node.inside("ip", "route")


def test_del_of_what_has_lost_everything_succeeds(node: Node) -> None:
    node.start("--tick", "600")
    container = node.container()
    host = node.add(container).document["interfaces"][0]["name"]
    node.inside("ip", "link", "del", host)
    node.inside("nft", "flush", "ruleset")
    node.delete(container)
    assert node.ledger().places() == []


def test_what_was_deleted_is_not_repaired(attached: Attached) -> None:
    attached.node.delete(attached.container)
    assert not eventually(lambda: attached.host in attached.node.links(), patience=1.5)
    assert attached.node.audit() == []
