"""Containers do not notice what becomes of the agent: not a packet is lost."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from netloom.kernel import NftElement, NftTable, Plan, Scope
from netloom.kernel.objects.nft import lay_down
from netloom.networks import table

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel

PACKETS = 4000
INTERVAL = 0.001

# What a version of us before this one may have had.
OLDER = NftTable("inet", "netloom", f"{table.TABLE.body}\nset of_old {{ type ifname; }}\n")


def kill_and_start(node: Node) -> None:
    node.kill()
    node.start()


def stop_and_start(node: Node) -> None:
    assert node.stop() == 0
    node.start()


def upgrade(node: Node) -> None:
    """The table is of another version when the agent starts, which replaces it as a whole."""
    assert node.stop() == 0
    plans = [Plan.decode(row.plan) for row in node.ledger().attachments()]
    elements = [it for plan in plans for it in plan.objects if isinstance(it, NftElement)]
    lay_down(node.namespace, OLDER, elements)
    assert table.TABLE.check(Scope(node.namespace)) != []
    node.start()
    assert table.TABLE.check(Scope(node.namespace)) == []


def attach_and_detach(node: Node) -> None:
    container = node.container()
    node.add(container)
    node.delete(container)
    node.remove_container(container)


def repair(node: Node) -> None:
    """The table is flushed by somebody, and comes back."""
    node.inside("nft", "flush", "ruleset")
    node.stop()
    node.start()


@contextmanager
def floods(node: Node) -> Iterator[list[subprocess.Popen[str]]]:
    """Thousands of packets between two containers, in both directions and families."""
    one, other = node.container(), node.container()
    addresses = {name: node.add(name).addresses for name in (one, other)}
    command = ["ping", "-q", "-n", "-i", str(INTERVAL), "-c", str(PACKETS)]
    started = [
        subprocess.Popen(["ip", "netns", "exec", here, *command, address], stdout=subprocess.PIPE, text=True)
        for here, there in ((one, other), (other, one))
        for address in addresses[there]
    ]
    with ExitStack() as stack:
        for process in started:
            stack.enter_context(process)
            stack.callback(process.kill)
        yield started


@pytest.mark.parametrize("change", [kill_and_start, stop_and_start, upgrade, attach_and_detach, repair])
def test_no_packet_is_lost(running: Node, change: Callable[[Node], None]) -> None:
    with floods(running) as pings:
        changes = 0
        while changes < 2 or any(ping.poll() is None for ping in pings):
            change(running)
            changes += 1
        for ping in pings:
            assert counted(ping) == (PACKETS, PACKETS)
    assert running.audit() == []


def test_a_moment_without_the_elements_would_be_noticed(running: Node) -> None:
    with floods(running) as pings:
        time.sleep(0.5)
        lay_down(running.namespace, table.TABLE, [])
        kill_and_start(running)
        assert all(received < sent for sent, received in map(counted, pings))


def counted(ping: subprocess.Popen[str]) -> tuple[int, int]:
    """How many packets went, and how many came back."""
    assert ping.stdout is not None
    report = ping.stdout.read()
    found = re.search(r"(\d+) packets transmitted, (\d+) received", report)
    assert found is not None, report
    return int(found[1]), int(found[2])
