"""A chain that many share is there with the first of them, and goes with the last."""

from __future__ import annotations

import errno
import socket
import subprocess
import threading
import time
from contextlib import suppress

import pytest

from netloom.kernel import (
    Conflict,
    InvalidObject,
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
    remove,
    repair,
)

pytestmark = pytest.mark.kernel

TABLE = NftTable(
    "inet",
    "t",
    "map ways { type ifname : verdict; }\nmap others { type ifname : verdict; }\nchain side { counter; }\n"
    "chain input { type filter hook input priority 0; tcp dport { 22, 80 } accept; iifname vmap @ways; }",
    beside=("net-",),
)
CHAIN = NftChain("inet", "t", "net-1", ("iifname @net-1 udp dport 9 drop", "accept"), members="ifname")


def way(link: str, to: str = "net-1", by: str = "ways") -> NftElement:
    return NftElement("inet", "t", by, (link,), verdict=f"goto {to}")


def member(link: str, of: str = "net-1") -> NftElement:
    return NftElement("inet", "t", of, (link,))


def attachment(link: str) -> Plan:
    return Plan((CHAIN, way(link), member(link)))


def changes(plan: Plan, scope: Scope) -> list[str]:
    return [change.change for change in apply(plan, scope)]


def listing(namespace: Namespace) -> str:
    return namespace.nft.run("list ruleset")


@pytest.fixture
def scope(host: Namespace) -> Scope:
    scope = Scope(host)
    TABLE.apply(scope)
    return scope


def test_the_first_makes_it_and_all_others_keep_it(scope: Scope) -> None:
    assert changes(attachment("nl1"), scope) == ["made", "made", "made"]
    assert changes(attachment("nl2"), scope) == ["kept", "made", "made"]
    assert check(Plan((TABLE, *attachment("nl1").objects, *attachment("nl2").objects)), scope) == []


def test_it_goes_with_the_last_and_not_before(scope: Scope) -> None:
    empty = listing(scope.host)
    for name in ("nl1", "nl2", "nl3"):
        apply(attachment(name), scope)
    remove(attachment("nl2"), scope)
    remove(attachment("nl1"), scope)
    assert check(attachment("nl3"), scope) == []
    remove(attachment("nl3"), scope)
    assert listing(scope.host) == empty
    remove(attachment("nl3"), scope)


@pytest.mark.parametrize(
    "user",
    [
        'add element inet t ways { "x" : goto net-1 }',
        'add element inet t others { "x" : jump net-1 }',
        "add rule inet t side jump net-1",
        "add rule inet t input iifname vmap { x : goto net-1 }",
        "add rule inet t side iifname @net-1 accept",
    ],
    ids=["goto", "jump", "a rule", "a rule's own map", "a rule that uses its members"],
)
def test_whoever_uses_it_keeps_it(scope: Scope, user: str) -> None:
    CHAIN.apply(scope)
    member("nl1").apply(scope)
    scope.host.nft.run(user)
    before = listing(scope.host)
    CHAIN.remove(scope)
    assert listing(scope.host) == before


def test_one_that_somebody_changed_stays_without_a_word_while_it_is_used(scope: Scope) -> None:
    apply(attachment("nl1"), scope)
    scope.host.nft.run("add rule inet t net-1 drop")
    before = listing(scope.host)
    CHAIN.remove(scope)
    assert listing(scope.host) == before
    with pytest.raises(Conflict) as refused:
        remove(attachment("nl1"), scope)
    assert [found.field for found in refused.value.differences] == ["rules"]


def test_its_members_go_with_it(scope: Scope) -> None:
    CHAIN.apply(scope)
    member("nl1").apply(scope)
    CHAIN.remove(scope)
    assert [found.what for found in check(Plan((CHAIN, member("nl1"))), scope)] == ["missing", "missing"]
    CHAIN.apply(scope)
    assert [found.what for found in check(Plan((CHAIN, member("nl1"))), scope)] == ["missing"]


def test_a_plan_that_fails_takes_its_chain_back_and_leaves_a_shared_one(scope: Scope) -> None:
    before = listing(scope.host)
    with pytest.raises(KernelError):
        apply(Plan((*attachment("nl1").objects, Up("nobody"))), scope)
    assert listing(scope.host) == before
    apply(attachment("nl1"), scope)
    before = listing(scope.host)
    with pytest.raises(KernelError):
        apply(Plan((*attachment("nl2").objects, Up("nobody"))), scope)
    assert listing(scope.host) == before


def test_one_that_another_uses_by_then_is_not_taken_back(scope: Scope) -> None:
    undo = CHAIN.apply(scope)
    assert undo is not None
    apply(attachment("nl2"), scope)
    undo()
    assert check(attachment("nl2"), scope) == []


def test_a_table_that_was_flushed_is_told_by_its_number(scope: Scope) -> None:
    apply(attachment("nl1"), scope)
    scope.host.nft.run("flush ruleset")
    with pytest.raises(KernelError) as refused:
        apply(attachment("nl2"), scope)
    assert refused.value.errno == errno.ENOENT
    assert not isinstance(refused.value, Conflict)
    remove(attachment("nl1"), scope)
    assert listing(scope.host) == ""


def test_what_a_rule_leads_to_must_be_there(scope: Scope) -> None:
    before = listing(scope.host)
    with pytest.raises(KernelError) as refused:
        NftChain("inet", "t", "net-2", ("jump nowhere",)).apply(scope)
    assert refused.value.errno == errno.ENOENT
    assert listing(scope.host) == before
    assert NftChain("inet", "t", "net-2", ("jump side",)).apply(scope) is not None


@pytest.mark.parametrize("rule", ["no such statement", 'iif "br0" drop', "ip saddr fd00::1 drop"])
def test_rules_that_nobody_understands_are_refused_in_words(scope: Scope, rule: str) -> None:
    before = listing(scope.host)
    with pytest.raises(KernelError, match="nft chain inet t net-2") as refused:
        NftChain("inet", "t", "net-2", (rule,)).apply(scope)
    assert refused.value.errno != errno.ENOENT
    assert listing(scope.host) == before


def test_what_was_never_understood_is_missing_and_its_removal_fine(scope: Scope) -> None:
    plan = Plan((NftChain("inet", "t", "net-2", ("no such statement",)),))
    assert [found.what for found in check(plan, scope)] == ["missing"]
    remove(plan, scope)


def test_rules_are_compared_as_the_kernel_has_them(scope: Scope) -> None:
    spelled = NftChain(
        "inet", "t", "net-3", ("ip  daddr 10.0.0.0/8 meta l4proto tcp th dport 80 counter drop",)
    )
    spelled.apply(scope)
    again = NftChain("inet", "t", "net-3", ("ip daddr 10.0.0.0/8 tcp dport 0x50 counter drop",))
    assert spelled.check(scope) == []
    assert [found.field for found in again.check(scope)] in ([], ["rules"])
    assert NftChain("inet", "t", "net-3", ("ip daddr 10.0.0.0/9 drop",)).check(scope) != []


def test_counters_of_its_rules_do_not_count(scope: Scope) -> None:
    counted = NftChain("inet", "t", "net-4", ("udp dport 9 counter drop",))
    apply(Plan((Up("lo", stay=True), counted, way("lo", "net-4"))), scope)
    with scope.host.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", ("127.0.0.1", 9))
    assert "packets 1" in listing(scope.host)
    assert counted.check(scope) == []


def test_packets_of_members_meet_its_rules(scope: Scope) -> None:
    apply(Plan((Up("lo", stay=True), CHAIN, way("lo"))), scope)
    with scope.host.entered():
        sender, receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    with sender, receiver:
        receiver.bind(("127.0.0.1", 9))
        receiver.setblocking(False)
        sender.sendto(b"before", ("127.0.0.1", 9))
        assert receiver.recv(9) == b"before"
        member("lo").apply(scope)
        sender.sendto(b"after", ("127.0.0.1", 9))
        with pytest.raises(BlockingIOError):
            receiver.recv(9)


def test_one_that_is_lost_is_put_back(scope: Scope) -> None:
    plan = attachment("nl1")
    apply(plan, scope)
    scope.host.nft.run("flush map inet t ways; delete chain inet t net-1; delete set inet t net-1")
    assert repair(plan, scope).put_back == [item.label for item in plan.objects]
    assert check(plan, scope) == []


def test_one_that_is_there_is_found_quickly_among_many(scope: Scope) -> None:
    """An attachment asks for it whenever it is made: libnftables would read the whole table."""
    commands = [f"add chain inet t net-{n}\nadd rule inet t net-{n} drop" for n in range(100, 600)]
    elements = ", ".join(f'"x{n}" : goto net-{100 + n % 500}' for n in range(10_000))
    scope.host.nft.run("\n".join([*commands, f"add element inet t ways {{ {elements} }}"]))
    CHAIN.apply(scope)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        assert CHAIN.apply(scope) is None
        times.append(time.perf_counter() - start)
    assert min(times) < 0.001


def test_it_comes_and_goes_while_somebody_flushes_the_ruleset(host: Namespace) -> None:
    """Whatever happens in between, nothing of it is a conflict."""
    scope = Scope(host)
    stop = threading.Event()
    theirs = Namespace.of_descriptor(host.fileno(), "theirs")

    def flush() -> None:
        with theirs.entered():
            while not stop.is_set():
                subprocess.run(["nft", "flush", "ruleset"], check=True)

    noise = threading.Thread(target=flush)
    noise.start()
    try:
        for _ in range(100):
            with suppress(KernelError):
                TABLE.apply(scope)
            try:
                apply(attachment("nl1"), scope)
            except KernelError as error:
                assert error.errno == errno.ENOENT, error
            remove(attachment("nl1"), scope)
    finally:
        stop.set()
        noise.join()
        theirs.close()


# --- the table beside which it stands ----------------------------------------------------------------


def test_a_table_does_not_mind_what_is_beside_it(scope: Scope) -> None:
    apply(attachment("nl1"), scope)
    assert TABLE.check(scope) == []
    assert TABLE.apply(scope) is None
    scope.host.nft.run("add chain inet t stranger; add set inet t odd { type ifname; }")
    assert [found.field for found in TABLE.check(scope)] == ["chain stranger", "set odd"]


def test_sets_without_a_name_belong_to_the_chain_that_uses_them(scope: Scope) -> None:
    CHAIN.apply(scope)
    scope.host.nft.run("add rule inet t net-1 tcp dport { 1, 2 } drop")
    assert TABLE.check(scope) == []
    assert [found.field for found in CHAIN.check(scope)] == ["rules"]
    scope.host.nft.run("add rule inet t side tcp dport { 1, 2 } drop")
    assert sorted(str(found.field) for found in TABLE.check(scope)) == ["chain side", "set __set2"]


def test_a_table_that_has_such_a_name_itself_is_refused(host: Namespace) -> None:
    for body in ("chain net-1 { }", "set net-1 { type ifname; }"):
        with pytest.raises(InvalidObject, match="net-1"):
            NftTable("inet", "t", body, beside=("net-",)).apply(Scope(host))
    assert listing(host) == ""


def test_the_chains_beside_a_table_go_with_it(scope: Scope) -> None:
    apply(attachment("nl1"), scope)
    TABLE.remove(scope)
    assert listing(scope.host) == ""


FITTING = (
    way("nl1"),
    way("nl1", "side"),
    member("nl1"),
    NftElement("inet", "t", "ways", ("nl1",), verdict="drop"),
)
MISFITS = {
    "no such set": NftElement("inet", "t", "nowhere", ("nl1",)),
    "another table": NftElement("inet", "other", "ways", ("nl1",), verdict="drop"),
    "another family": NftElement("ip", "t", "ways", ("nl1",), verdict="drop"),
    "another place": NftElement("inet", "t", "ways", ("nl1",), verdict="drop", on="attachment"),
    "too many parts": NftElement("inet", "t", "ways", ("nl1", "nl2"), verdict="drop"),
    "another type": NftElement("inet", "t", "ways", ("a-name-that-is-too-long",), verdict="drop"),
    "without a verdict": NftElement("inet", "t", "ways", ("nl1",)),
    "a value": NftElement("inet", "t", "ways", ("nl1",), value=("1",)),
    "a member with a verdict": NftElement("inet", "t", "net-1", ("nl1",), verdict="drop"),
    "no such chain": way("nl1", "nowhere"),
    "a chain that is not given": way("nl1", "net-2"),
    "a chain that the kernel calls": way("nl1", "input"),
    "members that are not given": member("nl1", "net-2"),
    "members of a chain without": member("nl1", "net-5"),
}


@pytest.mark.parametrize("element", FITTING, ids=str)
def test_an_element_that_fits_is_told_from_those_that_do_not(element: NftElement) -> None:
    TABLE.require_element(element, {CHAIN.name: CHAIN})


@pytest.mark.parametrize("element", MISFITS.values(), ids=MISFITS.keys())
def test_an_element_that_does_not_fit_is_refused(element: NftElement) -> None:
    bare = NftChain("inet", "t", "net-5", ("accept",))
    with pytest.raises(KernelError) as refused:
        TABLE.require_element(element, {CHAIN.name: CHAIN, bare.name: bare})
    assert element.label in str(refused.value)


def test_without_chains_only_the_tables_own_count() -> None:
    TABLE.require_element(way("nl1", "side"))
    with pytest.raises(InvalidObject):
        TABLE.require_element(way("nl1"))
