"""A glance at many attachments: it takes all that are as planned for what they are, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from netloom.journal import Attachment
from netloom.kernel import Namespace, Neighbour, NftChain, NftElement, Plan, Scope, Sysctl, check
from netloom.kernel.netlink import qdisc
from netloom.kernel.netlink.connection import NetlinkConnection
from netloom.kernel.snapshot import Snapshot
from netloom.ops.audit import as_planned, audit, plans_of
from netloom.ops.inspect.attachment_state import foreign_addresses
from netloom.ops.node import table_contents as contents
from netloom.ops.node.namespaces import namespace_of

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel


class Pair(NamedTuple):
    """A container with two interfaces, one with a network's default route, and another container."""

    node: Node
    container: str
    host: str

    def inside(self, *words: str) -> None:
        self.node.in_container(self.container, *words)

    def outside(self, *words: str) -> None:
        self.node.inside(*words)

    def fine(self) -> list[str]:
        """Interfaces that are as planned at a glance."""
        rows = list(self.node.ledger().attachments())
        with self.node.namespace.entered(), Namespace.own() as host:
            found = as_planned(rows, plans_of(rows), host, contents.there(host))
        return [row.ifname for row in rows if row.id in found]

    def closely(self) -> list[str]:
        """The same, each object asked for."""
        rows = list(self.node.ledger().attachments())
        with self.node.namespace.entered(), Namespace.own() as host:
            return [row.ifname for row in rows if _is_fine(row, host)]


def _is_fine(row: Attachment, host: Namespace) -> bool:
    namespace = namespace_of(row)
    if namespace is None:
        return False
    with namespace:
        plan = Plan.decode(row.plan)
        return not check(plan, Scope(host, namespace)) and not foreign_addresses(plan, namespace)


@pytest.fixture
def pair(node: Node) -> Pair:
    """No agent runs: nobody puts back what a test takes away."""
    node.start()
    container = node.container()
    added = node.add(container)
    assert node.plugin("ADD", container, ifname="net1").status == 0
    assert node.plugin("ADD", node.container(), ifname="other").status == 0
    node.stop()
    return Pair(node, container, added.document["interfaces"][0]["name"])


def test_all_that_is_as_planned_is_seen_at_a_glance(pair: Pair) -> None:
    assert pair.fine() == ["eth0", "net1", "other"]


def test_what_most_attachments_are_made_of_needs_no_question_of_its_own(pair: Pair) -> None:
    rows = list(pair.node.ledger().attachments())
    plans = plans_of(rows)
    with pair.node.namespace.entered(), Namespace.own() as host:
        outside = Snapshot(host, neighbours=True)
        for row in rows:
            namespace = namespace_of(row)
            assert namespace is not None
            with namespace:
                inside, scope = Snapshot(namespace), Scope(host, namespace)
                for it in plans[row.id].objects:
                    here, other = (outside, inside) if it.on == "host" else (inside, outside)
                    apart = isinstance(it, NftChain | NftElement | Sysctl) or (
                        isinstance(it, Neighbour) and it.on == "attachment"
                    )
                    assert here.has(it, scope, other) is not apart, it.label


CHANGES: dict[str, Callable[[Pair], None]] = {
    "the link's MTU": lambda it: it.outside("ip", "link", "set", it.host, "mtu", "1400"),
    "the link's MTU inside": lambda it: it.inside("ip", "link", "set", "eth0", "mtu", "1400"),
    "the link's MAC": lambda it: it.outside("ip", "link", "set", it.host, "address", "02:00:00:00:00:77"),
    "the link's MAC inside": lambda it: it.inside("ip", "link", "set", "eth0", "address", "02:00:00:00:00:7"),
    "the link is down": lambda it: it.outside("ip", "link", "set", it.host, "down"),
    "the link is down inside": lambda it: it.inside("ip", "link", "set", "eth0", "down"),
    "the link is gone": lambda it: it.outside("ip", "link", "del", it.host),
    "the link's name": lambda it: it.outside("ip", "link", "set", it.host, "name", "another"),
    "an address": lambda it: it.inside("ip", "addr", "del", "10.9.0.1/32", "dev", "eth0"),
    "an address with another prefix": lambda it: it.inside(
        "sh", "-c", "ip addr del 10.9.0.1/32 dev eth0; ip addr add 10.9.0.1/24 dev eth0"
    ),
    "an address that does not last": lambda it: it.inside(
        "ip", "addr", "change", "fd09::1/128", "dev", "eth0", "valid_lft", "1000", "preferred_lft", "1000"
    ),
    "an address of somebody else": lambda it: it.inside("ip", "addr", "add", "192.0.2.7/32", "dev", "eth0"),
    "the host's route": lambda it: it.outside("ip", "route", "del", "10.9.0.1/32"),
    "the host's route leads elsewhere": lambda it: it.outside(
        "ip", "route", "replace", "10.9.0.1/32", "dev", "lo", "proto", "78"
    ),
    "the default route": lambda it: it.inside("ip", "route", "del", "default"),
    "the other default route": lambda it: it.inside("ip", "-6", "route", "del", "default"),
    "the default route with an MTU": lambda it: it.inside(
        "ip", "route", "replace", "default", "via", "169.254.1.1", "dev", "eth0", "onlink", "proto", "78",
        "mtu", "900",
    ),
    "a neighbour": lambda it: it.outside("ip", "neigh", "del", "10.9.0.1", "dev", it.host),
    "a neighbour's MAC": lambda it: it.outside(
        "ip", "neigh", "replace", "10.9.0.1", "lladdr", "02:00:00:00:00:79", "dev", it.host,
        "nud", "permanent",
    ),
    "a neighbour that is learned": lambda it: it.inside(
        "ip", "neigh", "replace", "169.254.1.1", "lladdr", "ee:ee:ee:ee:ee:ee", "dev", "eth0",
        "nud", "reachable",
    ),
    "a setting": lambda it: it.outside("sysctl", "-w", f"net.ipv6.conf.{it.host}.accept_ra=2"),
    "an element": lambda it: it.outside(
        "nft", f"delete element inet netloom sources4 {{ {it.host} . 10.9.0.1 }}"
    ),
}  # fmt: skip
# A plan says nothing of it.
HARMLESS = {"the default route with an MTU"}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_seen_as_by_who_looks_closely(pair: Pair, what: str) -> None:
    CHANGES[what](pair)
    assert pair.fine() == pair.closely()
    assert ("eth0" in pair.fine()) == (what in HARMLESS)


def test_a_rule_of_a_second_interface_is_missed(pair: Pair) -> None:
    pair.inside("ip", "rule", "del", "priority", "7801")
    assert pair.fine() == ["eth0", "other"]


def test_a_namespace_that_is_gone_is_not_as_planned(pair: Pair) -> None:
    pair.node.remove_container(pair.container)
    assert pair.fine() == ["other"]


LIMITS = {"bandwidth": {"ingressRate": 8_000_000, "egressRate": 16_000_000}}


@pytest.fixture
def limited(node: Node) -> Node:
    """Four containers with limits, and no agent."""
    node.start()
    for _ in range(4):
        assert node.add(node.container(), node.config(runtimeConfig=LIMITS)).status == 0
    node.stop()
    return node


def queues_of(row: Attachment) -> str:
    return row.host_link.replace("loom", "lque")


def test_many_limits_are_compared_from_one_list_of_queues(
    limited: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lists the queues of all links each time: a list for each limit would be a square."""
    asked: list[int] = []
    dump = NetlinkConnection.dump

    def counting(self: NetlinkConnection, kind: int, payload: bytes) -> list[bytes]:
        asked.append(kind)
        return dump(self, kind, payload)

    rows = list(limited.ledger().attachments())
    limited.inside("ip", "route", "flush", "proto", "78")  # so that each is looked at closely, too
    monkeypatch.setattr(NetlinkConnection, "dump", counting)
    with limited.namespace.entered(), Namespace.own() as host:
        as_planned(rows, plans_of(rows), host, contents.there(host))
        assert asked.count(qdisc.GET) == 1
        asked.clear()
        assert len(audit(limited.ledger(), host)) == len(rows)
        assert asked.count(qdisc.GET) == 2  # at a glance, and closely


def test_limits_that_were_changed_are_told_as_by_who_looks_closely(limited: Node) -> None:
    rows = list(limited.ledger().attachments())
    limited.inside("tc", "qdisc", "del", "dev", rows[0].host_link, "root")
    limited.inside(
        "tc", "qdisc", "change", "dev", rows[1].host_link, "root", "handle", "6e6c:", "tbf",
        "rate", "3mbit", "burst", "100k", "limit", "100k",
    )  # fmt: skip
    limited.inside("tc", "qdisc", "del", "dev", rows[2].host_link, "ingress")
    limited.inside("ip", "link", "set", queues_of(rows[3]), "mtu", "1400")
    with limited.namespace.entered(), Namespace.own() as host:
        closely = []
        for row in rows:
            namespace = namespace_of(row)
            assert namespace is not None
            with namespace:
                differences = check(Plan.decode(row.plan), Scope(host, namespace))
                closely += [(str(row.key), it.object) for it in differences]
        found = audit(limited.ledger(), host)
        assert [it.subject for it in found] == [subject for subject, _ in closely]
        assert all(name in it.text for it, (_, name) in zip(found, closely, strict=True))
        assert as_planned(rows, plans_of(rows), host, contents.there(host)) == {
            row.id for row in rows if str(row.key) not in {subject for subject, _ in closely}
        }
    assert len({subject for subject, _ in closely}) >= 3
