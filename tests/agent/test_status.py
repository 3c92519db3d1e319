"""STATUS says whether an ADD would work, and why not."""

from __future__ import annotations

import time

import pytest

from netloom.journal import EVENTS

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel


def test_status_of_a_node_that_is_well_is_silence(running: Node) -> None:
    done = running.plugin("STATUS")
    assert (done.status, done.output) == (0, b"")


def test_an_exhausted_pool_is_code_50_and_named(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.0/24"}, {"cidr": "fd09::1/128"}])
    container = running.container()
    running.add(container, config)
    done = running.plugin("STATUS", config=config)
    assert done.code == 50
    assert "fd09::1/128" in done.document["msg"]
    assert running.plugin("STATUS").status == 0


def test_status_is_well_again_when_an_address_is_free(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=0)
    container = running.container()
    running.add(container, config)
    assert running.plugin("STATUS", config=config).code == 50
    running.delete(container, config)
    assert running.plugin("STATUS", config=config).status == 0


def test_a_config_that_cannot_work_is_code_50_and_named(running: Node) -> None:
    done = running.plugin("STATUS", config=running.config(mtu=5))
    assert done.code == 50
    assert "mtu 5" in done.document["msg"]


def test_a_table_of_somebody_else_in_place_of_ours_is_code_50_and_stays(node: Node) -> None:
    node.start("--tick", "0.2")
    node.inside("nft", "delete table inet netloom; add table inet netloom")
    assert eventually(lambda: node.plugin("STATUS").code == 50)
    assert "netloom" in node.plugin("STATUS").document["msg"]
    assert node.inside("nft", "list", "table", "inet", "netloom") == "table inet netloom {\n}\n"
    node.inside("nft", "delete", "table", "inet", "netloom")
    assert eventually(lambda: node.plugin("STATUS").status == 0)
    node.add(node.container())
    assert node.audit() == []


def test_status_answers_fast_in_a_large_and_nearly_full_pool(running: Node) -> None:
    began = time.monotonic()
    for _ in range(20):
        assert running.ask("STATUS", "").status == 0
    assert time.monotonic() - began < 5


def test_a_status_that_stays_the_same_is_one_line_of_the_log(running: Node) -> None:
    for _ in range(5):
        running.plugin("STATUS")
    running.plugin("STATUS", config=running.config(mtu=5))
    running.add(running.container())

    def codes() -> list[tuple[str, int]]:
        return sorted((it.verb, it.code) for it in running.ledger().operations() if it.verb not in EVENTS)

    assert eventually(lambda: len(codes()) == 3)
    assert codes() == [("ADD", 0), ("STATUS", 0), ("STATUS", 50)]
