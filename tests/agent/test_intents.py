"""DELs that came while no agent answered: done later, and only what they were meant for."""

from __future__ import annotations

import os
import signal
import time

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel


def directory_of(node: Node) -> str:
    return str(node.socket.parent / "intents")


def put(node: Node, name: str, content: bytes) -> None:
    os.makedirs(directory_of(node), mode=0o700, exist_ok=True)
    with open(os.path.join(directory_of(node), name), "wb") as file:
        file.write(content)


def test_intents_are_done_before_the_first_add(node: Node) -> None:
    pools = [{"cidr": "10.9.0.1/32"}]
    config = node.config(pools=pools, cooldown=0)
    node.start()
    container, other = node.container(), node.container()
    node.add(container, config)
    node.kill()
    node.delete(container, config)
    node.start()
    assert node.add(other, config).addresses == ["10.9.0.1"]
    assert node.intents() == []
    assert node.counted("replayed") == 1


def test_intents_are_done_while_the_agent_runs(node: Node) -> None:
    """A plugin may have given up on an agent that was only busy."""
    node.start("--tick", "0.1")
    container = node.container()
    node.add(container)
    socket = node.socket
    hidden = socket.with_name("hidden.sock")
    socket.rename(hidden)
    node.delete(container)
    hidden.rename(socket)
    assert eventually(lambda: node.intents() == [])
    assert node.links() == []
    assert node.audit() == []


def test_an_intent_spares_an_attachment_that_was_made_after_it(node: Node) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.kill()
    node.delete(container)
    (name,) = node.intents()
    with open(os.path.join(directory_of(node), name), "rb") as file:
        content = file.read()
    node.start()
    node.add(container)
    node.kill()
    put(node, name, content)
    node.start()
    assert node.intents() == []
    assert len(node.links()) == 1
    assert node.audit() == []


def test_a_del_that_is_repeated_is_one_intent(node: Node) -> None:
    for _ in range(5):
        node.delete("gone")
    assert len(node.intents()) == 1


def test_an_intent_for_what_never_was_is_done(node: Node) -> None:
    node.delete("nobody")
    node.start()
    assert node.intents() == []


def test_an_intent_without_a_config_for_what_never_was_is_done(node: Node) -> None:
    node.delete("nobody", b"")
    node.start()
    assert node.intents() == []


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", bytes(100), b"\0\0\0\x02{}", b"\0\0\0\x10" + b'{"protocol": 1 }'],
    ids=["empty", "garbage", "zeros", "no protocol", "no config"],
)
def test_an_intent_that_cannot_be_read_is_kept_aside_and_keeps_nobody_waiting(
    node: Node, content: bytes
) -> None:
    put(node, "a" * 32 + ".del", content)
    node.delete("nobody")
    node.start()
    assert node.intents() == ["a" * 32 + ".del.unreadable"]
    node.add(node.container())


def test_an_intent_that_is_larger_than_a_request_may_be_is_kept_aside_unread(node: Node) -> None:
    put(node, "a" * 32 + ".del", b"")
    os.truncate(os.path.join(directory_of(node), "a" * 32 + ".del"), 4 << 30)
    node.start()
    assert node.intents() == ["a" * 32 + ".del.unreadable"]
    assert node.memory() < 1 << 29
    node.add(node.container())


def test_what_is_no_intent_is_left_alone(node: Node) -> None:
    put(node, "notes.txt", b"precious")
    os.symlink("/etc/passwd", os.path.join(directory_of(node), "b" * 32 + ".del"))
    node.start()
    assert node.intents() == ["b" * 32 + ".del", "notes.txt"]
    assert os.path.exists("/etc/passwd")


def test_the_rest_of_a_plugin_that_was_killed_is_removed_after_a_while(node: Node) -> None:
    put(node, ".abc.del.1", b"half")
    put(node, ".def.del.2", b"half")
    old = time.time() - 3600
    os.utime(os.path.join(directory_of(node), ".abc.del.1"), (old, old))
    node.start()
    assert node.intents() == [".def.del.2"]


def test_an_intent_that_fails_stays_and_is_tried_again(node: Node) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.kill()
    node.delete(container)
    node.start("--tick", "60", environment={"NETLOOM_FAILPOINT": "del.removed:error"})
    assert len(node.intents()) == 1
    node.kill()
    node.start()
    assert node.intents() == []
    assert node.links() == []
    assert node.audit() == []


def test_many_intents_are_done_at_the_start(node: Node) -> None:
    node.start()
    containers = [node.container() for _ in range(20)]
    for container in containers:
        assert node.ask("ADD", container).status == 0
    node.kill()
    for container in containers:
        node.delete(container)
    node.start()
    assert node.links() == []
    assert node.intents() == []
    assert node.audit() == []


# An agent that is stopped: it does not answer, and is not gone.


def test_del_of_a_stopped_agent_succeeds_in_time_and_is_done_when_it_goes_on(running: Node) -> None:
    container = running.container()
    running.add(container)
    assert running.agent is not None
    running.agent.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    running.delete(container)
    assert time.monotonic() - began < 10
    assert len(running.intents()) == 1
    running.agent.send_signal(signal.SIGCONT)
    assert eventually(lambda: running.links() == [] and running.intents() == [])
    assert running.audit() == []


def test_add_to_a_stopped_agent_is_code_11_in_time(running: Node) -> None:
    assert running.agent is not None
    running.agent.send_signal(signal.SIGSTOP)
    container = running.container()
    assert running.plugin("ADD", container, NETLOOM_DEADLINE="0.5").code == 11
    assert running.plugin("STATUS", NETLOOM_DEADLINE="0.5").code == 50
    running.agent.send_signal(signal.SIGCONT)
    running.add(container)
    assert running.audit() == []


def test_add_then_del_to_a_stopped_agent_ends_with_nothing(running: Node) -> None:
    """A runtime that got no answer to its ADD sends a DEL."""
    assert running.agent is not None
    running.agent.send_signal(signal.SIGSTOP)
    container = running.container()
    assert running.plugin("ADD", container, NETLOOM_DEADLINE="0.5").code == 11
    running.delete(container)
    running.agent.send_signal(signal.SIGCONT)
    assert eventually(lambda: running.intents() == [])
    assert eventually(lambda: running.info()["under_way"] == 0)
    assert running.links() == []
    assert running.ledger().places() == []
    assert running.audit() == []


def test_an_agent_that_is_stopped_in_the_middle_of_an_add_and_asked_to_delete_ends_with_nothing(
    node: Node,
) -> None:
    node.start("--tick", "0.2", environment={"NETLOOM_FAILPOINT": "add.applied:stop"})
    container = node.container()
    assert node.plugin("ADD", container, NETLOOM_DEADLINE="1").code == 11
    node.delete(container)
    assert node.agent is not None
    node.agent.send_signal(signal.SIGCONT)
    assert eventually(lambda: node.intents() == [] and node.links() == [])
    assert node.ledger().places() == []
    assert node.audit() == []
