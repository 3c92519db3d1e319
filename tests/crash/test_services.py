"""SIGKILL at every step, with all that a network can say: no port stays taken, and nothing is left over.

Of the kernel objects, every third is the last before the kill, beginning with another each time; each is
in `make soak`.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netloom.cni import AttachmentKey
from netloom.failpoints import VARIABLE

from ..fixtures.internet import leftovers, mapped, port
from ..fixtures.node import Node, eventually
from .scene import IMPATIENT, needs_root

pytestmark = [pytest.mark.crash, needs_root]

PORT = 8080
STRIDE = 3
EVERYTHING = mapped(
    port(PORT),
    port(PORT, protocol="udp"),
    port(PORT + 1, hostIP="127.0.0.1"),
    port(PORT + 2, hostIP="2001:db8::1"),
    ipMasq={"except": ["203.0.113.0/24"]},
    isolation="networks",
    bandwidth={"ingressRate": 100_000_000, "egressRate": 50_000_000},
    sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "77"},
)


class Tenant:
    """A container whose network says everything, on a node whose agents die."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.container()
        self.config = node.config(**EVERYTHING)

    def start(self, step: str = "", *options: str) -> None:
        serves = self.start_or_die(step, *options)
        # It tells the journal of its start when it serves already, and may die of that.
        assert serves or step

    def start_or_die(self, step: str, *options: str) -> bool:
        """A new agent, that dies at a step. Whether it came to serve, and still does."""
        if self.node.agent is not None and self.node.agent.poll() is None:
            assert self.node.stop() == 0
        agent = self.node.start(*options, environment={VARIABLE: step}, ready=False)
        assert eventually(lambda: agent.poll() == -signal.SIGKILL or self.node.answers())
        return self.node.answers()

    def died(self) -> None:
        assert self.node.wait(20) == -signal.SIGKILL, self.node.log()[-2000:]

    def add(self) -> int:
        return self.node.plugin("ADD", self.name, self.config).code

    def delete(self) -> int:
        return self.node.deleted(self.name, self.config).code

    def collect(self) -> int:
        keys: dict[str, Any] = {**EVERYTHING, "cni.dev/valid-attachments": []}
        nobody = {"CNI_CONTAINERID": "", "CNI_NETNS": "", "CNI_IFNAME": ""}
        return self.node.plugin("GC", "", self.node.config(**keys), **nobody).code

    def is_attached(self) -> bool:
        found = self.node.ledger().find(AttachmentKey("net", self.name, "eth0"))
        assert found is None or found.state == "committed"
        return found is not None

    def require_whole_or_gone(self) -> None:
        assert self.node.audit() == []
        if not self.is_attached():
            self.require_gone()

    def require_gone(self) -> None:
        assert leftovers(self.node) == []
        links = json.loads(self.node.in_container(self.name, "ip", "-j", "link").stdout)
        assert [link["ifname"] for link in links] == ["lo"]

    def require_successor(self) -> None:
        """Another container gets the ports at once, and leaves nothing either."""
        successor = Tenant(self.node)
        assert successor.add() == 0
        assert self.node.audit() == []
        assert successor.delete() == 0
        successor.require_gone()


@pytest.fixture
def tenant(node: Node) -> Tenant:
    """Not attached; no agent serves."""
    return Tenant(node)


@pytest.fixture
def attached(tenant: Tenant) -> Tenant:
    """Attached, and an agent serves."""
    tenant.start()
    assert tenant.add() == 0
    return tenant


JOURNAL = [f"journal.{step}:kill:{commit}" for commit in (2, 3) for step in ("begun", "written", "committed")]


@pytest.mark.parametrize(
    "step", ["add.judged", "add.reserved", "add.applied", "add.committed", "add.answered", *JOURNAL]
)
def test_a_port_is_free_after_an_add_that_was_killed_at(tenant: Tenant, step: str) -> None:
    tenant.start(step)
    assert tenant.add() == 11
    tenant.died()
    tenant.start()
    tenant.require_whole_or_gone()
    assert tenant.delete() == 0
    tenant.require_gone()
    tenant.require_successor()


@pytest.mark.parametrize("step", ["add.undone", "add.freed"])
def test_a_port_is_free_after_an_add_that_failed_and_was_killed_at(tenant: Tenant, step: str) -> None:
    tenant.start(step)
    tenant.node.in_container(tenant.name, "ip", "link", "add", "eth0", "type", "bridge")
    assert tenant.add() == 11
    tenant.died()
    tenant.node.in_container(tenant.name, "ip", "link", "del", "eth0")
    tenant.start()
    tenant.require_gone()
    tenant.require_successor()


@pytest.mark.parametrize(
    "step", ["del.judged", "del.marked", "del.removed", "del.released", "del.answered", *JOURNAL]
)
def test_a_port_is_free_after_a_del_that_was_killed_at(attached: Tenant, step: str) -> None:
    attached.start(step)
    assert attached.delete() == 0
    attached.died()
    attached.start()
    attached.require_gone()
    attached.require_successor()


@pytest.mark.parametrize("step", ["gc.listed", "gc.row", "gc.done"])
def test_a_port_is_free_after_a_gc_that_was_killed_at(attached: Tenant, step: str) -> None:
    attached.start(step)
    assert attached.collect() == 11
    attached.died()
    attached.start()
    attached.require_whole_or_gone()
    assert attached.collect() == 0
    attached.require_gone()
    attached.require_successor()


@pytest.mark.parametrize("step", ["collect.found", "collect.done"])
def test_a_port_is_free_after_a_collection_that_was_killed_at(attached: Tenant, step: str) -> None:
    attached.start(step, *IMPATIENT)
    attached.node.remove_container(attached.name)
    attached.died()
    attached.start("", *IMPATIENT)
    assert eventually(lambda: leftovers(attached.node) == []), leftovers(attached.node)
    attached.require_successor()


@pytest.mark.parametrize("step", ["recovery.node", "recovery.row", "recovery.row-removed", "recovery.done"])
def test_a_port_is_free_after_a_recovery_that_was_killed_at(tenant: Tenant, step: str) -> None:
    tenant.start("add.applied")
    assert tenant.add() == 11
    tenant.died()
    assert not tenant.start_or_die(step)
    tenant.start()
    tenant.require_gone()
    tenant.require_successor()


@pytest.mark.parametrize("step", ["repair.found", "repair.done"])
def test_nothing_is_left_after_a_repair_that_was_killed_at(attached: Tenant, step: str) -> None:
    attached.start(step, *IMPATIENT)
    if step == "repair.found":
        attached.node.inside("nft", "flush", "ruleset")
    else:
        attached.node.inside("ip", "link", "del", attached.node.link_of(attached.name))
    attached.died()
    attached.start("", *IMPATIENT)
    assert eventually(lambda: attached.node.audit() == []), attached.node.audit()
    assert attached.delete() == 0
    attached.require_gone()
    attached.require_successor()


def numbers(soak: bool) -> Iterator[int]:
    return itertools.count(1) if soak else itertools.count(random.randint(1, STRIDE), STRIDE)


def test_a_port_is_free_after_an_add_that_was_killed_after_any_kernel_object(
    tenant: Tenant, soak: bool
) -> None:
    deaths = 0
    for number in numbers(soak):
        if not tenant.start_or_die(f"kernel.made:kill:{number}"):
            continue  # the node has objects of its own
        assert leftovers(tenant.node) == []
        if tenant.add() == 0:
            break
        tenant.died()
        deaths += 1
    assert deaths > (20 if soak else 20 // STRIDE)
    tenant.node.kill()  # it would die at the next object, if not now
    tenant.start()
    assert tenant.delete() == 0
    tenant.require_gone()
    tenant.require_successor()


def run_out(tenant: Tenant, verb: Callable[[Tenant], int], soak: bool) -> int:
    """How many agents died, each at one of the objects that the verb takes away."""
    for deaths, number in enumerate(numbers(soak)):
        tenant.start()
        assert tenant.add() == 0
        tenant.start(f"kernel.taken:kill:{number}")
        verb(tenant)
        agent = tenant.node.agent
        assert agent is not None
        if not eventually(lambda it=agent: it.poll() is not None, patience=5):  # type: ignore[misc]
            return deaths
        tenant.died()
        tenant.start()
        if verb is Tenant.collect:
            assert tenant.collect() == 0
        tenant.require_gone()
    raise AssertionError


@pytest.mark.parametrize("verb", [Tenant.delete, Tenant.collect])
def test_nothing_is_left_after_a_removal_that_was_killed_after_any_kernel_object(
    tenant: Tenant, verb: Callable[[Tenant], int], soak: bool
) -> None:
    assert run_out(tenant, verb, soak) >= 1
    tenant.start()
    tenant.require_gone()
    tenant.require_successor()
