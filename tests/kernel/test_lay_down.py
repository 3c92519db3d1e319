"""A table is laid down with its elements, over an older one of ours, and no packet sees the seam."""

from __future__ import annotations

import itertools
import random
import socket
import subprocess
import threading
import time

import pytest

from netloom.kernel import (
    Conflict,
    InvalidObject,
    InvalidPlan,
    KernelError,
    Namespace,
    NftChain,
    NftElement,
    NftTable,
    Plan,
    Scope,
    Up,
    apply,
    check,
)
from netloom.kernel.dataplane import Dataplane
from netloom.kernel.netlink import nft_elements
from netloom.kernel.objects.nft import lay_down

pytestmark = pytest.mark.kernel

SETS = "set sources { type ifname . ipv4_addr; }\nset sources6 { type ifname . ipv6_addr; }\n"


def table(priority: int = 0) -> NftTable:
    """Lets those through that are in the sets. Another priority is another version of it."""
    return NftTable(
        "inet",
        "t",
        f"{SETS}map verdicts {{ type ipv4_addr : verdict; }}\n"
        f"chain input {{ type filter hook input priority {priority}; "
        "iifname . ip saddr @sources accept; iifname . ip6 saddr @sources6 accept; udp dport 9 drop; }",
        beside=("net-",),
    )


def chain(number: int) -> NftChain:
    name = f"net-{number}"
    return NftChain("inet", "t", name, (f"iifname @{name} return", "drop"), members="ifname")


def leads(link: str, address: str, number: int) -> tuple[NftChain | NftElement, ...]:
    """What an attachment has: the chain of its network, that it leads there, and that it is a member."""
    return (
        chain(number),
        NftElement("inet", "t", "verdicts", (address,), verdict=f"goto net-{number}"),
        NftElement("inet", "t", f"net-{number}", (link,)),
    )


def source(link: str, address: str) -> NftElement:
    return NftElement("inet", "t", "sources6" if ":" in address else "sources", (link, address))


FEW = (source("nl1", "10.0.0.1"), source("nl1", "FD00:0::1"), source("nl2", "10.0.0.2"))


def ruleset(namespace: Namespace) -> str:
    return namespace.nft.run("list ruleset")


def test_a_table_comes_with_its_elements(host: Namespace) -> None:
    verdict = NftElement("inet", "t", "verdicts", ("10.0.0.1",), verdict="drop")
    lay_down(host, table(), (*FEW, verdict))
    assert check(Plan((table(), *FEW, verdict)), Scope(host)) == []


def test_a_table_without_elements_is_laid_down_as_it_is_applied(host: Namespace) -> None:
    lay_down(host, table(), ())
    assert table().check(Scope(host)) == []
    laid = ruleset(host)
    table().remove(Scope(host))
    apply(Plan((table(),)), Scope(host))
    assert ruleset(host) == laid


@pytest.mark.parametrize(
    "body",
    [
        table(1).body,
        "set sources { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }",
        "chain sources { }",
        "",
    ],
    ids=["priority", "another type", "a chain", "empty"],
)
def test_an_older_table_of_ours_goes_whatever_was_in_it(host: Namespace, body: str) -> None:
    host.nft.run(f'table inet t {{\ncomment "made by netloom 1"\n{body}\n}}')
    lay_down(host, table(), FEW)
    assert check(Plan((table(), *FEW)), Scope(host)) == []
    read = nft_elements.read_elements(host.netfilter, "inet", "t", "sources")
    assert sorted(read or ()) == [("nl1", "10.0.0.1"), ("nl2", "10.0.0.2")]


def test_elements_that_are_no_longer_wanted_are_gone(host: Namespace) -> None:
    lay_down(host, table(), FEW)
    lay_down(host, table(), FEW[1:])
    assert [found.object for found in check(Plan(FEW), Scope(host))] == [FEW[0].label]


@pytest.mark.parametrize("comment", ["", 'comment "somebody\'s"'])
def test_somebody_elses_table_is_left_alone(host: Namespace, comment: str) -> None:
    host.nft.run(f"table inet t {{\n{comment}\nchain c {{ counter; }}\n}}")
    before = ruleset(host)
    with pytest.raises(Conflict):
        lay_down(host, table(), FEW)
    assert ruleset(host) == before


@pytest.mark.parametrize(
    "wrong",
    [
        NftElement("inet", "t", "sources", ("nl3", "fd00::3")),
        NftElement("inet", "t", "sources", ("10.0.0.3",)),
        NftElement("inet", "t", "sources", ("a-name-that-is-too-long", "10.0.0.3")),
        NftElement("inet", "t", "sources", ("nl3", "10.0.0.3"), verdict="drop"),
        NftElement("inet", "t", "nowhere", ("nl3", "10.0.0.3")),
        NftElement("inet", "other", "sources", ("nl3", "10.0.0.3")),
        NftElement("ip", "t", "sources", ("nl3", "10.0.0.3")),
    ],
    ids=["family of address", "too few", "too long", "verdict", "no such set", "table", "family"],
)
def test_the_first_element_that_does_not_fit_is_named_and_all_stays_as_it_was(
    host: Namespace, wrong: NftElement
) -> None:
    lay_down(host, table(), FEW)
    before = ruleset(host)
    with pytest.raises(KernelError) as refused:
        lay_down(host, table(1), (*FEW, wrong, NftElement("inet", "t", "sources", ("x",))))
    assert wrong.label in str(refused.value)
    assert ruleset(host) == before


def test_what_the_kernel_refuses_leaves_all_as_it_was(host: Namespace) -> None:
    lay_down(host, table(), FEW)
    before = ruleset(host)
    two = [NftElement("inet", "t", "verdicts", ("10.0.0.1",), verdict=word) for word in ("accept", "drop")]
    with pytest.raises(KernelError, match="cannot install nft table inet t"):
        lay_down(host, table(1), (*FEW, *two))
    assert ruleset(host) == before


def test_chains_and_their_members_come_with_it_in_any_order(host: Namespace) -> None:
    """As often as attachments have them."""
    contents = [
        *FEW,
        *itertools.chain(*(leads(f"nl{n}", f"10.0.1.{n}", n % 3) for n in range(9))),
    ]
    random.Random(1).shuffle(contents)
    for _ in range(2):
        lay_down(host, table(), contents)
        assert check(Plan((table(), *contents)), Scope(host)) == []
    assert {change.change for change in apply(Plan((table(), *contents)), Scope(host))} == {"kept"}


def test_chains_that_are_no_longer_wanted_are_gone(host: Namespace) -> None:
    lay_down(host, table(), (*leads("nl1", "10.0.1.1", 1), *leads("nl2", "10.0.1.2", 2)))
    lay_down(host, table(1), leads("nl1", "10.0.1.1", 1))
    assert check(Plan((table(1), *leads("nl1", "10.0.1.1", 1))), Scope(host)) == []
    assert [found.what for found in chain(2).check(Scope(host))] == ["missing"]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ((chain(1), NftChain("inet", "t", "net-1", ("accept",))), "twice"),
        ((NftChain("inet", "t", "input", ("accept",)),), "no chain"),
        ((NftChain("inet", "t", "other", ("accept",)),), "no chain"),
        ((NftChain("inet", "other", "net-1", ("accept",)),), "does not belong to"),
        ((NftChain("inet", "t", "net-1", ("no such statement",)),), "install"),
        ((NftChain("inet", "t", "net-1", ("jump nowhere",)),), "install"),
        (leads("nl1", "10.0.1.1", 1)[1:2], "net-1"),
        (leads("nl1", "10.0.1.1", 1)[2:], "net-1"),
    ],
    ids=["two of a name", "of the table", "of any name", "table", "rule", "way", "without it", "members"],
)
def test_a_chain_that_cannot_be_leaves_all_as_it_was(
    host: Namespace, wrong: tuple[NftChain | NftElement, ...], word: str
) -> None:
    lay_down(host, table(), FEW)
    before = ruleset(host)
    with pytest.raises(KernelError, match=word):
        lay_down(host, table(1), (*FEW, *wrong))
    assert ruleset(host) == before


def test_elements_fit_a_table_that_was_laid_down_in_another_form(host: Namespace) -> None:
    """What was known of a set's keys is not taken for true of the set that came after it."""
    before = NftTable("inet", "t", "set s { type ipv4_addr . mark; }")
    after = NftTable("inet", "t", "set s { type mark . ipv4_addr; }")
    lay_down(host, before, ())
    apply(Plan((NftElement("inet", "t", "s", ("10.0.0.1", "7")),)), Scope(host))
    lay_down(host, after, ())
    apply(Plan((NftElement("inet", "t", "s", ("7", "10.0.0.1")),)), Scope(host))
    assert list(nft_elements.read_elements(host.netfilter, "inet", "t", "s") or ()) == [("7", "10.0.0.1")]


def test_twenty_thousand_elements_take_a_fraction_of_a_second(host: Namespace) -> None:
    many = [source(f"nl{n}", f"10.0.{n >> 8}.{n & 255}") for n in range(10_000)]
    many += [source(f"nl{n}", f"fd00::{n + 1:x}") for n in range(10_000)]
    for _ in range(2):  # fresh, and in place of as many
        start = time.monotonic()
        lay_down(host, table(), many)
        assert time.monotonic() - start < 10
    for name, elements in (("sources", many[:10_000]), ("sources6", many[10_000:])):
        start = time.monotonic()
        read = nft_elements.read_elements(host.netfilter, "inet", "t", name)
        assert time.monotonic() - start < 10
        assert read is not None
        assert read.keys() == {element.key for element in elements}


def test_twenty_thousand_elements_of_two_hundred_chains_take_little_more(host: Namespace) -> None:
    contents = [it for n in range(10_000) for it in leads(f"nl{n}", f"10.0.{n >> 8}.{n & 255}", n % 200)]
    for _ in range(2):
        start = time.monotonic()
        lay_down(host, table(), contents)
        assert time.monotonic() - start < 10
    assert len(nft_elements.read_elements(host.netfilter, "inet", "t", "verdicts") or ()) == 10_000
    assert len(nft_elements.read_elements(host.netfilter, "inet", "t", "net-7") or ()) == 50


def test_no_packet_meets_a_table_without_its_elements(host: Namespace) -> None:
    """On a loopback link, a packet has arrived or was dropped when it was sent."""
    apply(Plan((Up("lo", stay=True),)), Scope(host))
    known = [source("lo", f"127.0.{n >> 8}.{n & 255}") for n in range(1, 1000)]
    lay_down(host, table(), known)
    stop = threading.Event()
    passed: dict[str, set[bool]] = {"127.0.0.1": set(), "127.99.0.1": set()}
    theirs = Namespace.of_descriptor(host.fileno(), "theirs")

    def send() -> None:
        with theirs.entered():
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            senders = {address: socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for address in passed}
        receiver.bind(("127.0.0.1", 9))
        receiver.setblocking(False)
        for address, sender in senders.items():
            sender.bind((address, 0))
        while not stop.is_set():
            for address, sender in senders.items():
                sender.sendto(b"", ("127.0.0.1", 9))
                try:
                    receiver.recv(1)
                    passed[address].add(True)
                except BlockingIOError:
                    passed[address].add(False)
        for one in (receiver, *senders.values()):
            one.close()

    traffic = threading.Thread(target=send)
    traffic.start()
    try:
        for number in range(40):
            lay_down(host, table(number % 2), known)
    finally:
        stop.set()
        traffic.join()
        theirs.close()
    assert passed == {"127.0.0.1": {True}, "127.99.0.1": {False}}


def test_it_is_laid_down_while_somebody_flushes_the_ruleset(host: Namespace) -> None:
    stop = threading.Event()
    theirs = Namespace.of_descriptor(host.fileno(), "theirs")

    def flush() -> None:
        with theirs.entered():
            while not stop.is_set():
                subprocess.run(["nft", "flush", "ruleset"], check=True)

    noise = threading.Thread(target=flush)
    noise.start()
    try:
        for number in range(30):
            lay_down(host, table(number % 2), FEW)
    finally:
        stop.set()
        noise.join()
        theirs.close()


def test_the_dataplane_lays_tables_down(dataplane: Dataplane, host: Namespace) -> None:
    dataplane.lay_down(table(), lambda _: FEW).result(5)
    assert check(Plan((table(), *FEW)), Scope(host)) == []
    wrong = [source("nl1", "10.0.0.1"), source("a-name-that-is-too-long", "::1")]
    with pytest.raises(InvalidObject):
        dataplane.lay_down(table(), lambda _: wrong).result(5)
    with pytest.raises(InvalidPlan):
        dataplane.lay_down(NftTable("inet", "t", SETS, on="attachment")).result(5)
    assert check(Plan((table(), *FEW)), Scope(host)) == []


def test_the_dataplane_lays_down_chains_with_it(dataplane: Dataplane, host: Namespace) -> None:
    contents = (*leads("nl1", "10.0.1.1", 1), *leads("nl2", "10.0.1.2", 1))
    dataplane.lay_down(table(), lambda _: iter(contents)).result(5)
    assert check(Plan((table(), *contents)), Scope(host)) == []


def test_elements_are_read_with_their_values(host: Namespace) -> None:
    body = (
        "map ports { type inet_service : ipv4_addr . inet_service; }\nmap verdicts { type mark : verdict; }"
    )
    mapped = NftElement("inet", "t", "ports", ("80",), value=("10.0.0.1", "8080"))
    verdict = NftElement("inet", "t", "verdicts", ("7",), verdict="drop")
    lay_down(host, NftTable("inet", "t", body), (mapped, verdict))
    read = nft_elements.read_elements
    assert read(host.netfilter, "inet", "t", "ports") == {
        ("80",): nft_elements.Element(value=("10.0.0.1", "8080"))
    }
    assert read(host.netfilter, "inet", "t", "verdicts") == {("7",): nft_elements.Element(verdict="drop")}


def test_of_a_set_that_is_not_there_there_is_nothing_to_read(host: Namespace) -> None:
    lay_down(host, NftTable("inet", "t", SETS), ())
    assert nft_elements.read_elements(host.netfilter, "inet", "t", "sources") == {}
    assert nft_elements.read_elements(host.netfilter, "inet", "t", "nowhere") is None
    assert nft_elements.read_elements(host.netfilter, "inet", "other", "sources") is None
