"""The node's table: what others do to it is found and mended, and nothing is done to what is theirs."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from netloom.kernel import Namespace

from ..fixtures.internet import (
    BEYOND,
    IPV4,
    IPV6,
    NODE,
    NODE_TO_BEYOND,
    TCP,
    Answering,
    Attached,
    Internet,
    ask,
    attach,
    detach_all,
    leftovers,
    mapped,
    new_container,
    new_internet,
    port,
    unsound,
)
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])

ATTENTIVE = ("--tick", "0.1")

# All that a network can say which ends up in the table or beside it.
EVERYTHING = mapped(
    port(8080),
    port(8081, hostIP=NODE[IPV4]),
    port(8082, hostIP=NODE[IPV6]),
    port(8083, hostIP="127.0.0.1"),
    ipMasq={"except": ["203.0.113.0/24"]},
    isolation="networks",
    bandwidth={"ingressRate": 100_000_000, "egressRate": 100_000_000},
    sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1"},
)
WITHOUT_PORTS = {key: value for key, value in EVERYTHING.items() if key != "runtimeConfig"}


@pytest.fixture(scope="module")
def attentive_town() -> Iterator[Internet]:
    """Its agent looks after its table ten times a second."""
    with new_internet() as internet:
        internet.node.start(*ATTENTIVE)
        yield internet


@pytest.fixture(scope="module")
def sleepy_town() -> Iterator[Internet]:
    """Its agent looks after nothing by itself."""
    with new_internet() as internet:
        internet.node.start("--tick", "600")
        yield internet


@pytest.fixture
def attentive(attentive_town: Internet) -> Iterator[Internet]:
    yield attentive_town
    eventually(lambda: unsound(attentive_town.node) == [])
    detach_all(attentive_town)


@pytest.fixture
def sleepy(sleepy_town: Internet) -> Iterator[Internet]:
    yield sleepy_town
    try:
        detach_all(sleepy_town)
    finally:
        # Or every test behind one that fails would fail, too.
        if leftovers(sleepy_town.node):
            sleepy_town.node.kill()
            sleepy_town.node.inside("nft", "flush", "ruleset")
            sleepy_town.node.start("--tick", "600")


class Pair(NamedTuple):
    """Two of a network that says everything, and a stranger of another one."""

    internet: Internet
    one: Attached
    other: Attached
    stranger: Attached

    def works(self, family: str) -> bool:
        """Ports, masquerade and isolation."""
        try:
            return (
                ask(self.internet.outside, TCP, NODE[family], 8080).who == self.one.name
                and ask(self.other.place, TCP, BEYOND[family], 7000).saw == NODE_TO_BEYOND[family]
                and ask(self.other.place, TCP, self.one.addresses[family], 80).who == self.one.name
                and not self.reaches(self.stranger.place, self.one.addresses[family])
            )
        except OSError:
            return False

    def reaches(self, place: Namespace, address: str) -> bool:
        try:
            ask(place, TCP, address, 80, patience=0.2)
        except TimeoutError:
            return False
        return True


@pytest.fixture
def pair(attentive: Internet) -> Iterator[Pair]:
    one = attach(attentive, **EVERYTHING)
    other = attach(attentive, **WITHOUT_PORTS)
    stranger = attach(attentive, network="strange")
    with ExitStack() as stack:
        stack.enter_context(one.answering(protocols=(TCP,)))
        stack.enter_context(Answering(attentive.beyond, "beyond", 7000, protocols=(TCP,)))
        yield Pair(attentive, one, other, stranger)


BREAKS = {
    "all tables are flushed": "flush ruleset",
    "the table is gone": "delete table inet netloom",
    "all chains are empty": "flush table inet netloom",
    "host ports are led nowhere": "flush chain inet netloom hostports",
    "nothing leaves": "flush chain inet netloom leaving",
    "ARP passes": "delete table arp netloom",
}


@pytest.mark.parametrize("command", BREAKS.values(), ids=list(BREAKS))
def test_ports_masquerade_and_isolation_work_again_after(pair: Pair, command: str) -> None:
    tables = pair.internet.node.counted("tables")
    pair.internet.node.inside("nft", command)
    assert eventually(lambda: pair.internet.node.counted("tables") > tables)
    assert eventually(lambda: unsound(pair.internet.node) == []), unsound(pair.internet.node)
    assert pair.works(IPV4)
    assert pair.works(IPV6)


@pytest.mark.parametrize("command", BREAKS.values(), ids=list(BREAKS))
def test_a_table_that_is_broken_comes_back_without_a_tick(sleepy: Internet, command: str) -> None:
    """The kernel tells when somebody has changed rules."""
    attach(sleepy, **EVERYTHING)
    sleepy.node.inside("nft", command)
    assert eventually(lambda: unsound(sleepy.node) == []), unsound(sleepy.node)


def test_attachments_that_come_and_go_are_not_taken_for_changes_of_others(sleepy: Internet) -> None:
    """Nor is the table compared for each change in a storm: whatever happens meanwhile is one look."""
    node = sleepy.node
    looks = node.counted("rulesets")
    for _ in range(20):
        attach(sleepy).delete()
    assert node.counted("rulesets") - looks <= 1
    began = time.monotonic()
    for _ in range(300):
        node.namespace.nft.run("add table ip theirs; delete table ip theirs")
    seconds = time.monotonic() - began
    assert eventually(lambda: node.counted("rulesets") > looks + 1)
    assert node.counted("rulesets") - looks <= 3 + 10 * seconds + 10


KINDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "ports": mapped(port(8080)),
    "masquerade": {"ipMasq": True},
    "networks apart": {"isolation": "networks"},
    "containers apart": {"isolation": "containers"},
    "everything": EVERYTHING,
}


@pytest.mark.parametrize("keys", KINDS.values(), ids=list(KINDS))
def test_a_table_that_is_laid_down_again_has_all_elements_from_the_first_moment(
    sleepy: Internet, keys: dict[str, Any]
) -> None:
    """Whoever lays it down does so in one step: nobody has to be mended afterwards."""
    attach(sleepy, **keys)
    sleepy.node.inside("nft", "flush", "ruleset")
    attach(sleepy, network="another")
    # That ADD may have been under way when the table was laid down, and have left something in it.
    assert eventually(lambda: unsound(sleepy.node) == []), unsound(sleepy.node)


@pytest.mark.parametrize("keys", KINDS.values(), ids=list(KINDS))
def test_a_table_that_is_laid_down_at_a_start_has_all_elements_from_the_first_moment(
    sleepy: Internet, keys: dict[str, Any]
) -> None:
    attach(sleepy, **keys)
    sleepy.node.kill()
    sleepy.node.inside("nft", "flush", "ruleset")
    sleepy.node.start("--tick", "600")
    assert unsound(sleepy.node) == []


# Single things that are lost.


def names_beside(internet: Internet, prefix: str) -> list[str]:
    listed = json.loads(internet.node.inside("nft", "-j", "list", "chains"))["nftables"]
    names = [item["chain"]["name"] for item in listed if "chain" in item]
    return [name for name in names if name.startswith(prefix)]


def empty_chain(internet: Internet, prefix: str) -> None:
    (name,) = names_beside(internet, prefix)
    internet.node.inside("nft", "flush", "chain", "inet", "netloom", name)


def empty_members(internet: Internet) -> None:
    (name,) = names_beside(internet, "apart-")
    internet.node.inside("nft", "flush", "set", "inet", "netloom", name)


def emptied(kind: str, name: str) -> Callable[[Internet], object]:
    return lambda internet: internet.node.inside("nft", "flush", kind, "inet", "netloom", name)


ELEMENTS: dict[str, Callable[[Internet], object]] = {
    name: emptied("map" if name.startswith(("ports", "leaving", "apart")) else "set", name)
    for name in (
        "sources4", "sources6", "ports4", "ports6", "ports4_at", "ports6_at",
        "looped4", "looped4_at", "looped6", "leaving4", "leaving6", "apart",
    )
} | {"members of a network": empty_members}  # fmt: skip
CHAINS: dict[str, Callable[[Internet], object]] = {
    "what a network masquerades": lambda internet: empty_chain(internet, "leave-"),
    "whom a network keeps apart": lambda internet: empty_chain(internet, "apart-"),
}
LOSSES = ELEMENTS | CHAINS


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_check_finds_what_is_lost(sleepy: Internet, loss: Callable[[Internet], object]) -> None:
    container = attach(sleepy, **EVERYTHING)
    assert container.check().code == 0
    loss(sleepy)
    found = container.check().code
    container.delete()
    assert found == 103
    assert leftovers(sleepy.node) == []


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_the_network_is_whole_for_who_comes_after_del_whatever_was_lost(
    sleepy: Internet, loss: Callable[[Internet], object]
) -> None:
    container = attach(sleepy, **EVERYTHING)
    loss(sleepy)
    container.delete()
    again = attach(sleepy, **EVERYTHING)
    assert again.check().code == 0


@pytest.mark.parametrize("loss", ELEMENTS.values(), ids=list(ELEMENTS))
def test_an_element_that_is_lost_comes_back(attentive: Internet, loss: Callable[[Internet], object]) -> None:
    container = attach(attentive, **EVERYTHING)
    loss(attentive)
    assert eventually(lambda: container.check().code == 0)
    assert unsound(attentive.node) == []


@pytest.mark.parametrize("loss", CHAINS.values(), ids=list(CHAINS))
def test_a_networks_chain_that_is_emptied_is_told_or_comes_back(
    attentive: Internet, loss: Callable[[Internet], object]
) -> None:
    container = attach(attentive, **EVERYTHING)
    loss(attentive)
    told = container.check().code == 103
    came_back = eventually(lambda: container.check().code == 0, patience=1)
    attentive.node.inside("nft", "delete table inet netloom")
    assert told or came_back


@pytest.mark.parametrize("loss", CHAINS.values(), ids=list(CHAINS))
def test_who_joins_a_network_whose_chain_was_emptied_is_told_or_finds_it_whole(
    sleepy: Internet, loss: Callable[[Internet], object]
) -> None:
    """An ADD that succeeds without masquerade or isolation would be a lie."""
    attach(sleepy, **EVERYTHING)
    attach(sleepy, **WITHOUT_PORTS)
    loss(sleepy)
    joined = sleepy.node.ask("ADD", new_container(sleepy), sleepy.node.config(**WITHOUT_PORTS))
    is_whole = unsound(sleepy.node) == []
    sleepy.node.inside("nft", "delete table inet netloom")
    attach(sleepy, **WITHOUT_PORTS)
    assert (joined.code == 0) == is_whole, joined.output


@pytest.mark.parametrize("loss", CHAINS.values(), ids=list(CHAINS))
def test_the_same_add_again_makes_a_chain_whole_that_was_emptied(
    sleepy: Internet, loss: Callable[[Internet], object]
) -> None:
    config, container = sleepy.node.config(**WITHOUT_PORTS), new_container(sleepy)
    assert sleepy.node.ask("ADD", container, config).code == 0
    loss(sleepy)
    assert sleepy.node.ask("ADD", container, config).code == 0
    assert unsound(sleepy.node) == []
    assert sleepy.node.ask("DEL", container, config).code == 0


# What is not ours.

FOREIGN = """
table ip nat {
    chain PREROUTING { type nat hook prerouting priority dstnat; tcp dport 9999 dnat to 192.0.2.2:99; }
    chain POSTROUTING { type nat hook postrouting priority srcnat; ip saddr 172.16.0.0/12 masquerade; }
}
table inet filter {
    set allowed { type ipv4_addr; elements = { 192.0.2.2 }; }
    chain input { type filter hook input priority filter; ct state established accept; }
    chain forward { type filter hook forward priority filter; policy accept; }
}
"""


@pytest.fixture
def foreign(attentive: Internet) -> Iterator[None]:
    attentive.node.inside("nft", FOREIGN)
    yield
    for table in ("ip nat", "inet filter"):
        attentive.node.inside("nft", f"delete table {table}")


def others(internet: Internet) -> list[Any]:
    """All rules but ours."""
    listed = json.loads(internet.node.inside("nft", "-j", "list", "ruleset"))["nftables"]
    found = []
    for item in listed:
        ((kind, value),) = item.items()
        name = value.get("name") if kind == "table" else value.get("table")
        if kind != "metainfo" and (value["family"], name) not in (("inet", "netloom"), ("arp", "netloom")):
            found.append(item)
    return found


@pytest.mark.usefixtures("foreign")
def test_nothing_is_put_into_the_tables_of_others(attentive: Internet) -> None:
    before = others(attentive)
    container = attach(attentive, **EVERYTHING)
    attached = others(attentive)
    container.delete()
    assert before == attached == others(attentive) != []


@pytest.mark.usefixtures("foreign")
def test_nothing_is_put_into_the_tables_of_others_when_ours_is_mended(attentive: Internet) -> None:
    attach(attentive, **EVERYTHING)
    before = others(attentive)
    attentive.node.inside("nft", "delete table inet netloom")
    assert eventually(lambda: unsound(attentive.node) == [])
    assert others(attentive) == before != []


def test_a_firewall_of_the_host_decides_before_a_host_port(attentive: Internet) -> None:
    """What an operator translates elsewhere goes there."""
    container = attach(attentive, **mapped(port(9999)))
    attentive.node.inside("nft", FOREIGN)
    with container.answering(), Answering(attentive.outside, "outside", 99):
        answer = ask(attentive.beyond, TCP, NODE_TO_BEYOND[IPV4], 9999)
    for table in ("ip nat", "inet filter"):
        attentive.node.inside("nft", f"delete table {table}")
    assert answer.who == "outside"


# What the journal does not tell.


def test_of_an_attachment_whose_plan_cannot_be_read_nothing_is_left(attentive: Internet) -> None:
    node = attentive.node
    container = attach(attentive, **EVERYTHING)
    node.kill()
    with closing(sqlite3.connect(node.state_dir / "journal.db")) as journal, journal:
        journal.execute("UPDATE attachment SET plan = ?", (b"{",))
    node.start(*ATTENTIVE)
    container.delete()
    assert eventually(lambda: leftovers(node) == []), leftovers(node)


def lose_journal(internet: Internet) -> None:
    internet.node.kill()
    shutil.rmtree(internet.node.state_dir)
    internet.node.start(*ATTENTIVE)


@FAMILIES
def test_a_host_port_works_on_when_the_journal_is_lost(attentive: Internet, family: str) -> None:
    container = attach(attentive, **EVERYTHING)
    lose_journal(attentive)
    with container.answering():
        answer = ask(attentive.outside, TCP, NODE[family], 8080)
    container.delete()
    assert answer.who == container.name


def test_of_an_attachment_whose_journal_is_lost_nothing_is_left_after_del(attentive: Internet) -> None:
    container = attach(attentive, **EVERYTHING)
    lose_journal(attentive)
    container.delete()
    assert eventually(lambda: leftovers(attentive.node) == []), leftovers(attentive.node)


def test_an_add_after_the_journal_was_lost_is_whole(attentive: Internet) -> None:
    container = attach(attentive, **EVERYTHING)
    lose_journal(attentive)
    again = attentive.node.ask("ADD", container.name, container.config)
    assert again.code == 0, again.output
    assert eventually(lambda: unsound(attentive.node) == []), unsound(attentive.node)
