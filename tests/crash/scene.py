"""A node on which agents are killed, and what must be true of it when the next one serves."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from netloom.cni import AttachmentKey
from netloom.failpoints import VARIABLE

from ..fixtures.node import Node, Outcome, eventually

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

NETWORK = "net"
# The victim's first interface stays; the second is what verbs are about, so that rules are part of it.
FIRST, SECOND = "eth0", "net1"
# Options of an agent that collects and repairs at once, and not after half a minute.
IMPATIENT = ("--tick", "0.05", "--grace", "0.1")


class Scene:
    """`one` and `other` are attached, and so is the victim's first interface. `attached` are all that are."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.one, self.other, self.victim = (node.container() for _ in range(3))
        self.addresses = {name: node.add(name).addresses for name in (self.one, self.other)}
        node.add(self.victim)
        self.attached = {(self.one, FIRST), (self.other, FIRST), (self.victim, FIRST)}

    # Lives of agents.

    def start(self, step: str = "", *options: str) -> None:
        """A new agent, that dies at a step; in place of the one that serves, if one does."""
        self.stop()
        self.node.start(*options, environment={VARIABLE: step})

    def stop(self) -> None:
        """The agent that serves, if one does."""
        if self.node.agent is not None and self.node.agent.poll() is None:
            assert self.node.stop() == 0

    def start_and_die(self, step: str) -> None:
        """An agent that does not live to serve."""
        self.stop()
        self.node.start(environment={VARIABLE: step}, ready=False)
        self.died()

    def lives_to_serve(self, step: str, *options: str) -> bool:
        """A new agent, of which nobody knows whether it comes to serve before it dies at a step."""
        self.stop()
        agent = self.node.start(*options, environment={VARIABLE: step}, ready=False)
        assert eventually(lambda: agent.poll() == -signal.SIGKILL or self.node.answers())
        return self.node.answers()

    def survived(self, patience: float = 5) -> bool:
        """Whether the agent lives. One that is killed may need a moment to end."""
        agent = self.node.agent
        assert agent is not None
        return not eventually(lambda: agent.poll() == -signal.SIGKILL, patience)

    def died(self) -> None:
        assert self.node.wait(20) == -signal.SIGKILL, self.node.log()[-2000:]

    def attach_all(self) -> None:
        """What the scene began with, once more."""
        for container, ifname in ((self.one, FIRST), (self.other, FIRST), (self.victim, FIRST)):
            self.addresses[container] = self.node.add(container).addresses
            self.attached.add((container, ifname))

    # Verbs about the victim's second interface.

    @property
    def key(self) -> AttachmentKey:
        return AttachmentKey(NETWORK, self.victim, SECOND)

    @property
    def is_attached(self) -> bool:
        return (self.victim, SECOND) in self.attached

    def add(self) -> Outcome:
        done = self.node.plugin("ADD", self.victim, ifname=SECOND)
        if done.status == 0:
            self.attached.add((self.victim, SECOND))
        return done

    def delete(self) -> Outcome:
        done = self.node.deleted(self.victim, ifname=SECOND)
        if done.status == 0:
            self.attached.discard((self.victim, SECOND))
        return done

    def check(self, added: Outcome) -> Outcome:
        config = self.node.config(prevResult=added.document)
        return self.node.plugin("CHECK", self.victim, config, ifname=SECOND)

    def died_unheard(self) -> None:
        """Nobody was told how the verb ended."""
        self.died()
        self.believe_journal()

    def believe_journal(self) -> None:
        """Both outcomes of the verb are right; the journal knows which it was."""
        self.attached.discard((self.victim, SECOND))
        found = self.node.ledger().find(self.key)
        if found is not None and found.state == "committed":
            self.attached.add((self.victim, SECOND))

    def collect(self, *others: tuple[str, str]) -> Outcome:
        """GC of the victim's second interface: all else is valid, and so are the others."""
        stay = self.attached - {(self.victim, SECOND)}
        valid = [
            {"containerID": container, "ifname": ifname} for container, ifname in sorted({*stay, *others})
        ]
        keys: dict[str, Any] = {"cni.dev/valid-attachments": valid}
        config = self.node.config(**keys)
        done = self.node.plugin("GC", "", config, CNI_CONTAINERID="", CNI_NETNS="", CNI_IFNAME="")
        if done.status == 0:
            self.attached = stay
        return done

    # What must be true.

    def descriptors(self) -> int:
        """Of an agent that rests: now and then, it looks after an attachment, and opens a few for it."""
        counted = []
        for _ in range(5):
            counted.append(self.node.descriptors())
            time.sleep(0.02)
        return min(counted)

    def require_sound(self) -> None:
        """Journal, pools and kernel agree, nothing is left that nobody has, neighbours reach each other."""
        found = self.node.audit()
        assert found == [], found
        ledger = self.node.ledger()
        rows = list(ledger.attachments())
        assert {(row.container_id, row.ifname) for row in rows} == self.attached
        held = [ip for _, ip, _ in ledger.held()]
        assert len(held) == len(set(held)) == 2 * len(rows)
        assert sorted(self._routes()) == sorted(row.host_link for row in rows for _ in ("IPv4", "IPv6"))
        assert sorted(self.node.links()) == sorted(row.host_link for row in rows)
        self._require_victim_as_attached()
        assert self.node.intents() == []
        if {(self.one, FIRST), (self.other, FIRST)} <= self.attached:
            self.require_neighbours()

    def require_neighbours(self) -> None:
        for here, there in ((self.one, self.other), (self.other, self.one)):
            for address in self.addresses[there]:
                assert self.node.ping(here, address), f"{here} does not reach {address}"

    def _routes(self) -> list[str]:
        """The links of all routes that are ours."""
        found: list[dict[str, Any]] = []
        for family in ("-4", "-6"):
            found += json.loads(self.node.inside("ip", "-j", family, "route", "show", "proto", "78") or "[]")
        return [route["dev"] for route in found]

    def _require_victim_as_attached(self) -> None:
        """What is in the container is what its attachments say, and not what was begun once."""
        links = json.loads(self.node.in_container(self.victim, "ip", "-j", "link").stdout)
        expected = {"lo", *(ifname for container, ifname in self.attached if container == self.victim)}
        assert {link["ifname"] for link in links} == expected
        for family in ("-4", "-6"):
            listed = json.loads(self.node.in_container(self.victim, "ip", "-j", family, "rule").stdout)
            ours = [rule for rule in listed if 7800 <= rule["priority"] < 7900]
            assert len(ours) == self.is_attached

    def require_verbs_work(self) -> None:
        """The victim's second interface comes, is as planned, is the same again, and goes."""
        added = self.add()
        assert added.code == 0, added.output
        assert self.check(added).code == 0
        again = self.add()
        assert again.document == added.document
        assert all(self.node.ping(self.one, address) for address in added.addresses)
        self.require_sound()
        assert self.delete().code == 0
        assert self.delete().code == 0
        self.require_sound()
