"""GC: what the runtime calls valid stays, and of its own network the rest goes."""

from __future__ import annotations

import time

import pytest

from netloom.api.protocol import Head, encode

from ..fixtures.node import Node, Outcome

pytestmark = pytest.mark.kernel


@pytest.fixture
def running(shared: Node) -> Node:
    return shared


def named(node: Node, key: str, *containers: str, ifname: str = "eth0") -> bytes:
    """The config of a GC that calls these valid."""
    return node.config_with({key: [{"containerID": it, "ifname": ifname} for it in containers]})


def left(node: Node) -> set[str]:
    return {place.key.container_id for place in node.ledger().places()}


@pytest.fixture
def three(running: Node) -> list[str]:
    """Three containers that are attached."""
    containers = [running.container() for _ in range(3)]
    for container in containers:
        running.add(container)
    return containers


@pytest.mark.parametrize("key", ["cni.dev/valid-attachments", "cni.dev/attachments"])
def test_what_is_not_called_valid_goes(running: Node, three: list[str], key: str) -> None:
    done = running.plugin("GC", config=named(running, key, three[0], three[2]))
    assert (done.status, done.output) == (0, b"")
    assert left(running) == {three[0], three[2]}
    assert len(running.links()) == 2
    assert running.audit() == []


def test_of_both_keys_the_one_of_the_specification_counts(running: Node, three: list[str]) -> None:
    both = {
        "cni.dev/valid-attachments": [{"containerID": three[0], "ifname": "eth0"}],
        "cni.dev/attachments": [],
    }
    running.plugin("GC", config=running.config_with(both))
    assert left(running) == {three[0]}


@pytest.mark.parametrize("key", ["cni.dev/valid-attachments", "cni.dev/attachments"])
@pytest.mark.parametrize("valid", [[], None], ids=["empty", "null"])
def test_if_none_is_valid_all_go(
    running: Node, three: list[str], key: str, valid: list[object] | None
) -> None:
    assert len(three) == 3
    assert running.plugin("GC", config=running.config_with({key: valid})).status == 0
    assert left(running) == set()
    assert running.links() == []
    assert running.audit() == []


def test_without_a_word_of_attachments_nothing_goes(running: Node, three: list[str]) -> None:
    assert running.plugin("GC").status == 0
    assert left(running) == set(three)


@pytest.mark.parametrize("valid", ["all", 5, [5], [{"containerID": 5}], {"containerID": "x"}])
def test_a_list_that_cannot_be_read_is_an_error_and_nothing_goes(
    running: Node, three: list[str], valid: object
) -> None:
    done = running.plugin("GC", config=running.config_with({"cni.dev/valid-attachments": valid}))
    assert done.code == 7
    assert left(running) == set(three)


def test_other_networks_are_left_alone(running: Node, three: list[str]) -> None:
    config = running.config_with({"cni.dev/valid-attachments": []}, "other")
    assert running.plugin("GC", config=config).status == 0
    assert left(running) == set(three)


def test_an_interface_is_valid_by_its_container_and_its_name(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.add(container, ifname="net1")
    running.plugin("GC", config=named(running, "cni.dev/valid-attachments", container, ifname="net1"))
    assert [place.key.ifname for place in running.ledger().places()] == ["net1"]
    assert running.audit() == []


def test_gc_works_for_containers_whose_namespaces_are_gone(running: Node, three: list[str]) -> None:
    for container in three:
        running.remove_container(container)
    running.plugin("GC", config=named(running, "cni.dev/valid-attachments"))
    assert left(running) == set()
    assert running.audit() == []


def test_gc_needs_no_more_of_the_config_than_del(running: Node, three: list[str]) -> None:
    assert len(three) == 3
    config = running.config_with({"pools": 5, "cni.dev/valid-attachments": []})
    assert running.plugin("GC", config=config).status == 0
    assert left(running) == set()


def test_gc_of_hundreds_leaves_none(running: Node) -> None:
    containers = [running.container() for _ in range(150)]
    outcomes: list[Outcome] = [running.ask("ADD", container) for container in containers]
    assert {outcome.status for outcome in outcomes} == {0}
    assert running.plugin("GC", config=named(running, "cni.dev/valid-attachments", containers[7])).status == 0
    assert left(running) == {containers[7]}
    assert len(running.links()) == 1
    assert running.audit() == []


def now() -> int:
    """As a plugin says when it was started."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def collected(node: Node, sent: int) -> Outcome:
    """A GC that calls nothing valid, sent at that time."""
    environment = node.cni_environment("GC", "")
    return node.call(encode(Head(1, environment, sent), named(node, "cni.dev/valid-attachments")))


def test_gc_spares_what_was_attached_after_it_was_sent(running: Node) -> None:
    """It waited for the agent: what came meanwhile, the runtime could not know when it chose."""
    early, late = running.container(), running.container()
    running.add(early)
    sent = now()
    running.add(late)
    assert collected(running, sent).status == 0
    assert left(running) == {late}
    assert running.audit() == []
    assert collected(running, now()).status == 0
    assert left(running) == set()


@pytest.mark.parametrize("sent", [0, -1, 1 << 62, 10**400], ids=["not said", "negative", "late", "huge"])
def test_gc_of_an_impossible_time_is_of_the_moment_it_came(
    running: Node, three: list[str], sent: int
) -> None:
    assert len(three) == 3
    assert collected(running, sent).status == 0
    assert left(running) == set()


def test_gc_goes_on_when_one_cannot_be_deleted(node: Node) -> None:
    node.start("--tick", "60", environment={"NETLOOM_FAILPOINT": "del.marked:error"})
    containers = [node.container() for _ in range(3)]
    for container in containers:
        node.add(container)
    done = node.plugin("GC", config=named(node, "cni.dev/valid-attachments"))
    assert done.status == 1
    assert all(container in done.message for container in containers)
    node.kill()
    node.start()
    assert left(node) == set()
    assert node.audit() == []
