"""What somebody undoes on the host while the agent runs, and how it comes back."""

from __future__ import annotations

import os
import threading
import time

import pytest

from netloom.api.protocol import LENGTH

from ..fixtures.node import Node, Outcome, eventually

pytestmark = pytest.mark.kernel

# How long an ADD waits for a namespace that is on its way out.
PATIENCE = 1.0

BREAKS = {
    "the table's chains are empty": "flush table inet netloom",
    "the senders' chain is empty": "flush chain inet netloom sender",
    "the guard is gone": "flush chain inet netloom guard; delete chain inet netloom guard",
    "the table sleeps": "add table inet netloom { flags dormant; }",
    "the table is gone": "delete table inet netloom",
}


@pytest.mark.parametrize("command", BREAKS.values(), ids=list(BREAKS))
def test_the_guard_stands_again(running: Node, command: str) -> None:
    running.add(running.container())
    with running.paused():
        running.inside("nft", command)
        assert any(finding.code == "table-broken" for finding in running.audit())
    assert eventually(lambda: running.audit() == [])


@pytest.mark.parametrize("command", BREAKS.values(), ids=list(BREAKS))
def test_the_guard_stands_after_a_start(running: Node, command: str) -> None:
    running.add(running.container())
    running.kill()
    running.inside("nft", command)
    running.start()
    assert running.audit() == []


def test_an_add_does_not_wait_for_a_table_that_was_flushed(node: Node) -> None:
    node.start("--tick", "600")
    first = node.container()
    node.add(first)
    node.inside("nft", "flush", "ruleset")
    added = node.add(node.container())
    assert all(node.ping(first, address) for address in added.addresses)
    # The ADD may have been under way when the table was laid down, and have left something in it.
    assert eventually(lambda: node.audit() == [])


def test_tables_that_are_flushed_under_load_come_back_whole(node: Node) -> None:
    """No ADD fails for it, nobody who was attached is cut off, and no element stays that nobody has."""
    node.start("--tick", "0.2")
    containers = [node.container() for _ in range(24)]
    failed: list[Outcome] = []

    def churn(own: list[str]) -> None:
        for _ in range(4):
            for verb in ("ADD", "DEL", "ADD"):
                failed.extend(it for name in own if (it := node.ask(verb, name)).status != 0)

    threads = [threading.Thread(target=churn, args=(containers[first::8],)) for first in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        node.inside("nft", "flush", "ruleset")
        time.sleep(0.4)
    assert failed == []
    assert eventually(lambda: node.audit() == []), node.audit()


def test_forwarding_that_was_switched_off_is_on_again(running: Node) -> None:
    one, other = running.container(), running.container()
    running.add(one)
    addresses = running.add(other).addresses
    running.inside("sysctl", "-w", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
    assert eventually(lambda: all(running.ping(one, address) for address in addresses))


def test_a_socket_that_was_removed_is_made_again(running: Node) -> None:
    os.unlink(running.socket)
    assert eventually(running.answers)
    running.add(running.container())
    assert running.stop() == 0
    assert not running.socket.exists()


def test_the_agent_starts_whatever_stands_in_the_place_of_the_intents(node: Node) -> None:
    node.socket.parent.mkdir(mode=0o700)
    (node.socket.parent / "intents").write_text("no directory")
    node.start()
    node.add(node.container())


def test_intents_of_a_directory_that_others_can_write_to_are_not_done(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.kill()
    running.delete(container)
    intents = running.socket.parent / "intents"
    assert len(list(intents.glob("*.del"))) == 1
    intents.chmod(0o777)
    running.start()
    assert len(running.links()) == 1
    intents.chmod(0o700)
    assert eventually(lambda: running.links() == [])


def test_a_container_that_comes_back_while_its_namespace_dies_is_attached(running: Node) -> None:
    container = running.container()

    def is_attached() -> bool:
        began = time.monotonic()
        done = running.plugin("ADD", container)
        # The kernel takes a namespace apart when it has the time. An ADD may fail that has waited for it.
        assert done.status == 0 or time.monotonic() - began >= PATIENCE, done.output
        return done.status == 0

    for _ in range(8):
        assert eventually(is_attached)
        running.remove_container(container)
        running.container(container)
    assert eventually(is_attached)
    assert running.audit() == []


def test_a_namespace_that_has_the_number_of_a_dead_one_has_a_default_route(running: Node) -> None:
    for _ in range(15):
        first = running.container()
        running.add(first)
        running.remove_container(first)
        second = running.container()
        running.add(second)
        assert "default" in running.in_container(second, "ip", "route").stdout


@pytest.mark.parametrize("sent", ["1" + "0" * 400, "-1" + "0" * 400, "-1"])
def test_an_intent_of_an_impossible_time_does_not_keep_the_agent_from_starting(node: Node, sent: str) -> None:
    intents = node.socket.parent / "intents"
    intents.mkdir(mode=0o700, parents=True)
    environment = '{"CNI_COMMAND":"DEL","CNI_CONTAINERID":"c1","CNI_IFNAME":"eth0"}'
    head = f'{{"protocol":1,"sent":{sent},"environment":{environment}}}'.encode()
    (intents / f"{'0' * 32}.del").write_bytes(LENGTH.pack(len(head)) + head + node.config())
    node.start()
    node.add(node.container())
