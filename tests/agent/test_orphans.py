"""Links that no attachment has, as after a journal was lost.

Who uses them keeps the addresses, and nobody else is refused for their sake.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from netloom.kernel.objects.link import GROUP
from netloom.kernel.objects.route import PROTOCOL
from netloom.ops.node.orphans import orphans_at

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel


def lose_journal(node: Node) -> None:
    node.kill()
    for file in node.state_dir.iterdir():
        file.unlink()


@pytest.fixture
def forgetful(node: Node) -> tuple[Node, list[str]]:
    """A node whose journal was lost, and three containers that it had attached before."""
    node.start()
    containers = [node.container() for _ in range(3)]
    for container in containers:
        node.add(container)
    lose_journal(node)
    node.start()
    return node, containers


def stray(node: Node, *addresses: str) -> None:
    """A link of ours that no journal has ever known, with routes to addresses."""
    node.inside("ip", "link", "add", "loomstray", "group", str(GROUP), "type", "bridge")
    node.inside("ip", "link", "set", "loomstray", "up")
    for address in addresses:
        node.inside("ip", "route", "add", address, "dev", "loomstray", "proto", str(PROTOCOL))


@pytest.fixture
def unaware(node: Node) -> Node:
    """A node with such a link that its agent has not looked for yet."""
    node.start("--tick", "60")
    stray(node, "10.9.0.1", "fd09::1", "10.9.0.2")
    return node


def orphans(node: Node) -> dict[str, list[str]]:
    found: dict[str, list[str]] = node.info()["orphans"]
    return found


def test_a_new_container_gets_the_next_address_that_is_free(forgetful: tuple[Node, list[str]]) -> None:
    node, (one, *_) = forgetful
    given = [address for _ in range(2) for address in node.add(node.container()).addresses]
    assert given == ["10.9.0.4", "fd09::4", "10.9.0.5", "fd09::5"]
    assert node.counted("ADD failed") == 0
    assert [address for address in given if not node.ping(one, address)] == []


def test_an_add_that_runs_into_one_takes_the_next_address_by_itself(unaware: Node) -> None:
    assert orphans(unaware) == {}
    assert unaware.add(unaware.container()).addresses == ["10.9.0.3", "fd09::2"]
    assert orphans(unaware) == {"loomstray": ["10.9.0.1", "10.9.0.2", "fd09::1"]}
    assert (unaware.counted("ADD failed"), unaware.counted("unfinished")) == (0, 0)
    assert [it.code for it in unaware.audit()] == ["link-orphaned"]


def test_many_that_run_into_one_at_once_all_get_others(unaware: Node) -> None:
    containers = [unaware.container() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda it: unaware.ask("ADD", it), containers))
    assert [it.output for it in done if it.status] == []
    given = {address for it in done for address in it.addresses}
    assert (len(given), given & {"10.9.0.1", "10.9.0.2", "fd09::1"}) == (16, set())


@pytest.mark.parametrize("known", [True, False])
def test_an_address_of_one_that_is_asked_for_is_refused_with_its_name(unaware: Node, known: bool) -> None:
    if known:
        unaware.add(unaware.container())
    done = unaware.plugin("ADD", unaware.container(), CNI_ARGS="IP=10.9.0.2")
    assert done.code == 101
    assert "requested address 10.9.0.2 is in use by link loomstray" in done.message
    assert "`ip link del loomstray`" in done.message


def test_a_link_that_somebody_has_just_removed_refuses_nobody(unaware: Node) -> None:
    unaware.add(unaware.container())
    unaware.inside("ip", "link", "del", "loomstray")
    assert unaware.add(unaware.container(), CNI_ARGS="IP=10.9.0.2").addresses[0] == "10.9.0.2"


def test_status_names_them_until_they_are_gone(forgetful: tuple[Node, list[str]]) -> None:
    node, _ = forgetful
    told = [it for it in node.info()["findings"] if it["code"] == "link-orphaned"]
    assert sorted(it["subject"] for it in told) == sorted(node.links())
    assert {it["severity"] for it in told} == {"warning"}
    assert all(f"`ip link del {it['subject']}`" in it["next"] for it in told)
    assert node.plugin("STATUS").code == 0
    for link in node.links():
        node.inside("ip", "link", "del", link)
    assert eventually(lambda: orphans(node) == {})
    assert node.info()["findings"] == []


def test_one_goes_with_its_namespace(forgetful: tuple[Node, list[str]]) -> None:
    node, containers = forgetful
    for container in containers:
        node.remove_container(container)
    assert eventually(lambda: orphans(node) == {})


def test_of_very_many_some_are_named(node: Node) -> None:
    node.start()
    for _ in range(5):
        node.add(node.container())
    lose_journal(node)
    node.start()
    told = node.info()["findings"]
    assert [bool(it["subject"]) for it in told] == [True, True, True, False]
    assert told[-1]["text"] == "2 more links are not in the journal (orphaned)"


def test_what_is_deleted_is_free_at_once(forgetful: tuple[Node, list[str]]) -> None:
    node, (one, *_) = forgetful
    assert ["10.9.0.1", "fd09::1"] in orphans(node).values()
    node.delete(one)
    assert ["10.9.0.1", "fd09::1"] not in orphans(node).values()
    assert node.add(node.container(), CNI_ARGS="IP=10.9.0.1").addresses[0] == "10.9.0.1"


def test_who_is_attached_anew_may_ask_for_its_own_address(forgetful: tuple[Node, list[str]]) -> None:
    node, (one, other, _) = forgetful
    assert node.plugin("ADD", one, CNI_ARGS="IP=10.9.0.2").code == 101
    assert node.add(one, CNI_ARGS="IP=10.9.0.1").addresses[0] == "10.9.0.1"
    assert len(orphans(node)) == 2
    assert node.ping(other, "10.9.0.1")


def test_a_pool_of_which_they_have_every_address_is_exhausted(node: Node) -> None:
    config = node.config(pools=[{"cidr": "10.9.0.1/32"}])
    node.start()
    node.add(node.container(), config)
    lose_journal(node)
    node.start()
    assert node.plugin("STATUS", "", config).code == 50
    assert node.plugin("ADD", node.container(), config).code == 11


def test_nothing_that_comes_and_goes_is_taken_for_one(running: Node) -> None:
    containers = [running.container() for _ in range(3)]

    def come_and_go(container: str) -> list[int]:
        return [running.ask(verb, container).status for _ in range(25) for verb in ("ADD", "DEL")]

    seen = []
    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(come_and_go, it) for it in containers]
        while not all(it.done() for it in working):
            seen.append(orphans_at(running.namespace, lambda question: question(running.ledger())))
    assert [it.result() for it in working] == [[0] * 50] * 3
    assert [it for it in seen if it] == []
