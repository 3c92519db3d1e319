"""What a container keeps whose row in the journal was lost: masquerade, host ports, isolation, its addresses.

Real traffic before and after: outside knows no way to the pools, so an answer is proof of masquerade.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from netloom.api.paths import ORPHANS
from netloom.ops.node import orphans
from netloom.ops.node.namespaces import boot_id

from ..fixtures.internet import (
    BEYOND,
    IPV4,
    IPV6,
    NODE,
    NODE_TO_BEYOND,
    OUTSIDE,
    TCP,
    Answer,
    Answering,
    Attached,
    Internet,
    ask,
    attach,
    leftovers,
    mapped,
    new_internet,
    port,
)
from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

PORT = 7000
HOST_PORT = 8080
FAMILIES = (IPV4, IPV6)

# Outside is an exception of the masquerade, which beyond is not.
SERVICES = mapped(
    port(HOST_PORT, PORT),
    ipMasq={"except": ["192.0.2.0/24", "2001:db8::/64", "203.0.113.16/28"]},
    isolation="networks",
)


class Lost(NamedTuple):
    """A node with containers: `own` has every service, `friend` is of its network, `stranger` is not."""

    internet: Internet
    own: Attached
    friend: Attached
    stranger: Attached

    @property
    def node(self) -> Node:
        return self.internet.node

    @property
    def containers(self) -> tuple[Attached, ...]:
        return self.own, self.friend, self.stranger


def lose_journal(node: Node) -> None:
    node.kill()
    for file in node.state_dir.glob("journal.db*"):
        file.unlink()


def flush(node: Node) -> None:
    node.inside("nft", "flush", "ruleset")


@pytest.fixture
def served() -> Iterator[Lost]:
    with new_internet() as internet, ExitStack() as stack:
        internet.node.start("--tick", "0.1")
        internet.know_pools()
        apart = {key: value for key, value in SERVICES.items() if key != "runtimeConfig"}
        found = Lost(
            internet,
            attach(internet, **SERVICES),
            attach(internet, **apart),
            attach(
                internet, network="other", pools=({"cidr": "10.8.0.0/24"}, {"cidr": "fd08::/64"}), **apart
            ),
        )
        for it in found.containers:
            stack.enter_context(it.answering(PORT))
        for place, who in ((internet.outside, "outside"), (internet.beyond, "beyond")):
            stack.enter_context(Answering(place, who, PORT))
        require_all(found)
        yield found


def is_reached(asking: Attached, address: str) -> bool:
    try:
        ask(asking.place, TCP, address, PORT, patience=0.5)
    except (TimeoutError, OSError):
        return False
    return True


def lacking(it: Lost) -> list[str]:
    """What does not work of all that the containers were given."""
    own, internet = it.own, it.internet
    wrong = []
    for family in FAMILIES:
        for place, address, number, wanted in (
            (own.place, BEYOND[family], PORT, Answer("beyond", NODE_TO_BEYOND[family])),
            (own.place, OUTSIDE[family], PORT, Answer("outside", own.addresses[family])),
            (internet.outside, NODE[family], HOST_PORT, Answer(own.name, OUTSIDE[family])),
        ):
            try:
                answer = ask(place, TCP, address, number)
            except OSError as error:
                wrong.append(f"{wanted}: {error}")
                continue
            if answer != wanted:
                wrong.append(f"{wanted}: {answer}")
        if not is_reached(it.friend, own.addresses[family]):
            wrong.append(f"{family} within the network")
        if is_reached(it.stranger, own.addresses[family]):
            wrong.append(f"{family} apart from the other network")
    return wrong


def require_all(it: Lost) -> None:
    """A busy machine may lose a question or two; what is cut off stays so."""
    assert eventually(lambda: lacking(it) == []), lacking(it)


def findings(node: Node) -> list[str]:
    return [it["code"] for it in node.info()["findings"]]


def test_all_of_it_works_after_the_journal_was_lost(served: Lost) -> None:
    lose_journal(served.node)
    served.node.start("--tick", "0.1")
    require_all(served)
    assert set(findings(served.node)) == {"link-orphaned"}


@pytest.mark.parametrize("when", ["runs", "is stopped", "was killed while it started"])
def test_it_works_after_a_flush_that_follows_the_loss(served: Lost, when: str) -> None:
    node = served.node
    lose_journal(node)
    if when == "was killed while it started":
        node.start(environment={"NETLOOM_FAILPOINT": "recovery.orphans"}, ready=False)
        assert node.wait() == -signal.SIGKILL
        flush(node)
    else:
        node.start("--tick", "0.1")
    if when == "is stopped":
        node.stop()
        flush(node)
    if when == "runs":
        flush(node)
    else:
        node.start("--tick", "0.1")
    require_all(served)


def test_an_element_that_somebody_removes_comes_back(served: Lost) -> None:
    node = served.node
    lose_journal(node)
    node.start("--tick", "0.1")
    node.inside("nft", "flush", "map", "inet", "netloom", "leaving4")
    require_all(served)


def test_it_works_after_another_loss_and_with_a_table_of_another_version(served: Lost) -> None:
    node = served.node
    for _ in range(2):
        lose_journal(node)
        # What an earlier version has laid down says so in its comment.
        listed = node.inside("nft", "list", "table", "inet", "netloom")
        comment = next(line for line in listed.splitlines() if "made by netloom" in line)
        other = listed.replace(comment, '\tcomment "made by netloom 0123456789abcdef"')
        (node.directory / "table.nft").write_text(f"delete table inet netloom\n{other}")
        node.inside("nft", "-f", str(node.directory / "table.nft"))
        node.start("--tick", "0.1")
        require_all(served)


def test_where_the_table_was_gone_first_it_says_what_may_be_lost(served: Lost) -> None:
    node = served.node
    lose_journal(node)
    flush(node)
    node.start("--tick", "0.1")
    told = [it for it in node.info()["findings"] if it["code"] == "orphan-incomplete"]
    assert sorted(it["subject"] for it in told) == sorted(node.links())
    assert {it["severity"] for it in told} == {"error"}
    # What can be known is put back: the addresses that are routed to it are its own.
    assert is_reached(served.friend, served.own.addresses[IPV4])
    # It is not forgotten by the next agent, which finds a table.
    node.kill()
    node.start("--tick", "0.1")
    assert "orphan-incomplete" in findings(node)


def test_a_chain_that_somebody_has_changed_is_named_as_lost(served: Lost) -> None:
    node = served.node
    listed = json.loads(node.inside("nft", "-j", "list", "chains"))["nftables"]
    chains = {it["chain"]["name"] for it in listed if "chain" in it}
    for name in (it for it in chains if it.startswith("leave-")):
        node.inside("nft", "insert", "rule", "inet", "netloom", name, "tcp", "dport", "25", "drop")
    lose_journal(node)
    node.start("--tick", "0.1")
    told = [it["text"] for it in node.info()["findings"] if it["code"] == "orphan-incomplete"]
    assert len(told) == len(node.links())
    assert all("masquerade" in it and "host ports" not in it for it in told)


def test_nothing_is_left_of_orphans_that_go(served: Lost) -> None:
    node = served.node
    lose_journal(node)
    node.start("--tick", "0.1")
    served.own.delete()
    served.friend.delete()
    (link,) = node.links()
    node.inside("ip", "link", "del", link)
    assert eventually(lambda: node.info()["orphans"] == {})
    assert eventually(lambda: leftovers(node) == []), leftovers(node)
    assert eventually(lambda: not (node.state_dir / ORPHANS).exists())


def test_one_that_is_attached_again_has_what_its_new_configuration_says(served: Lost) -> None:
    node, own = served.node, served.own
    lose_journal(node)
    node.start("--tick", "0.1")
    assert node.add(own.name, node.config(ipMasq=False)).status == 0
    link = node.link_of(own.name)
    assert link not in node.info()["orphans"]
    assert eventually(lambda: link not in orphans.read(str(node.state_dir), boot_id()))
    flush(node)
    assert eventually(lambda: is_reached(served.friend, own.addresses[IPV4]))
    with pytest.raises(TimeoutError):
        ask(own.place, TCP, BEYOND[IPV4], PORT, patience=0.5)


def test_a_host_port_of_an_orphan_is_not_given_to_another(served: Lost) -> None:
    node = served.node
    lose_journal(node)
    node.start("--tick", "0.1")
    config = node.config(**mapped(port(HOST_PORT, PORT)))
    refused = node.plugin("ADD", node.container(), config)
    assert refused.code == 105
    assert "orphaned" in refused.message
    require_all(served)
    served.own.delete()
    assert node.plugin("ADD", node.container(), config).status == 0
