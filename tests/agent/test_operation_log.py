"""What was done is written down after the answer: whatever becomes of the client, and of the writing."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netloom.api.protocol import Head, encode
from netloom.failpoints import VARIABLE

from ..fixtures.node import Node, eventually, received
from ..fixtures.successor import follow

pytestmark = pytest.mark.kernel

# More than a socket's buffer takes.
LARGE = {"cniVersion": "1.1.0", "interfaces": [{"name": f"if{number}"} for number in range(50_000)]}


@contextmanager
def asking(node: Node, verb: str, container: str, config: bytes | None = None) -> Iterator[socket.socket]:
    """A request that was sent; its answer is not waited for."""
    environment = node.cni_environment(verb, container)
    head = Head(protocol=1, environment=environment, sent=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    frame = encode(head, node.config() if config is None else config)
    netns = os.open(f"/run/netns/{container}", os.O_RDONLY)
    with node.connect() as connection:
        sent = socket.send_fds(connection, [frame], [netns])
        os.close(netns)
        connection.sendall(frame[sent:])
        yield connection


def written(node: Node, verb: str, container: str) -> list[int]:
    """The codes of its operations."""
    return [it.code for it in node.ledger().operations() if (it.verb, it.container_id) == (verb, container)]


def is_stopped(node: Node) -> bool:
    assert node.agent is not None
    return "\nState:\tT" in Path(f"/proc/{node.agent.pid}/status").read_text()


def go_on(node: Node) -> None:
    assert node.agent is not None
    node.agent.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_it_is_written_down_though_who_asked_has_hung_up_before_the_answer(node: Node, verb: str) -> None:
    node.start(environment={VARIABLE: f"{verb.lower()}.answered:stop:2"})
    first, container = node.container(), node.container()
    node.add(first)
    node.delete(first)
    before = node.descriptors()
    with asking(node, verb, container):
        assert eventually(lambda: is_stopped(node))
    go_on(node)
    assert eventually(lambda: written(node, verb, container) == [0])
    assert node.counted(f"{verb} done") == 2
    assert eventually(lambda: node.descriptors() <= before + 1)
    assert node.audit() == []


def test_it_is_written_down_though_who_asked_does_not_take_the_answer(running: Node) -> None:
    first, container = running.container(), running.container()
    running.add(first)
    before = running.descriptors()
    with asking(running, "ADD", container, running.config(prevResult=LARGE)) as connection:
        assert eventually(lambda: written(running, "ADD", container) == [0])
        # And who takes it after all has all of it.
        assert len(received(connection).document["interfaces"]) == 50_002
    assert eventually(lambda: running.descriptors() <= before + 1)


def test_it_is_written_down_though_the_agent_hands_over_meanwhile(running: Node) -> None:
    """The client that does not take its answer is not waited for, but what it asked for is known."""
    container = running.container()
    with asking(running, "ADD", container, running.config(prevResult=LARGE)):
        assert eventually(lambda: running.counted("ADD done") == 1)
        follow(running)
        assert eventually(lambda: written(running, "ADD", container) == [0])
    assert running.audit() == []


def test_all_that_was_answered_is_written_down_before_the_agent_hands_over(running: Node) -> None:
    containers = [running.container() for _ in range(10)]
    for container in containers:
        running.add(container)
    follow(running)
    assert [written(running, "ADD", it) for it in containers] == [[0]] * 10


def test_what_cannot_be_written_down_is_answered_all_the_same(node: Node) -> None:
    node.start(environment={VARIABLE: "operation.recorded:error"})
    container = node.container()
    node.add(container)
    before = node.descriptors()
    for _ in range(5):
        assert node.plugin("ADD", container).status == 0
        assert node.plugin("ADD", container, node.config(mtu=1)).code == 7
    assert node.delete(container).status == 0
    assert eventually(lambda: node.descriptors() <= before)
    assert node.info()["under_way"] <= 1
    assert node.audit() == []


def test_an_agent_that_is_killed_between_the_answer_and_the_writing_has_answered(node: Node) -> None:
    node.start(environment={VARIABLE: "operation.recorded"})
    container = node.container()
    added = node.plugin("ADD", container)
    assert added.status == 0, added.output
    assert node.wait() == -signal.SIGKILL
    node.start()
    assert node.add(container).document == added.document
    assert node.audit() == []
