"""nftables: which namespace names are looked up in, and what a check sees and does not see."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest

from netloom.kernel import (
    Bridge,
    Conflict,
    InvalidObject,
    KernelError,
    Namespace,
    NftElement,
    NftTable,
    Plan,
    Scope,
    Up,
    apply,
    check,
    remove,
)
from netloom.kernel.netlink import nft_elements

pytestmark = pytest.mark.kernel

BODY = """
set sources { type ipv4_addr . ifname; }
map verdicts { type ipv4_addr : verdict; }
chain input {
  type filter hook input priority 0; policy accept;
  tcp dport { 22, 80 } counter accept
  ip saddr vmap @verdicts
}
"""
TABLE = NftTable("inet", "t", BODY)


def nft(namespace: Namespace, commands: str) -> str:
    with namespace.entered():
        return subprocess.run(
            ["nft", "-f", "-"], input=commands, check=True, capture_output=True, text=True
        ).stdout


def fields(table: NftTable, host: Namespace) -> list[str | None]:
    return [difference.field for difference in table.check(Scope(host))]


def test_names_of_links_are_looked_up_in_the_tables_own_namespace(host: Namespace, pod: Namespace) -> None:
    for name in ("other", "eth0"):
        apply(Plan((Bridge(name),)), Scope(host))
    apply(Plan((Bridge("eth0"),)), Scope(pod))
    pod.nft.run('table inet t { chain c { iif "eth0" drop; }; }')
    with pod.entered():
        listed = subprocess.run(["nft", "-n", "list", "ruleset"], capture_output=True, text=True, check=True)
    assert 'iif "eth0" drop' in listed.stdout


def test_a_table_that_names_links_by_index_is_refused_with_advice(host: Namespace) -> None:
    apply(Plan((Bridge("br0"),)), Scope(host))
    with pytest.raises(KernelError, match="iifname"):
        NftTable("inet", "t", 'chain c { iif "br0" drop; }').apply(Scope(host))
    assert nft(host, "list ruleset") == ""


@pytest.mark.parametrize(
    ("commands", "field"),
    [
        ("add rule inet t input drop", "chain input"),
        ("flush chain inet t input", "chain input"),
        ("add chain inet t another", "chain another"),
        ("add set inet t another { type ipv4_addr; }", "set another"),
        ("flush chain inet t input; delete set inet t sources", "set sources"),
        ("add table inet t { flags dormant; }", "flags"),
        ("add counter inet t counted", "object counted"),
    ],
)
def test_whatever_is_changed_in_a_table_is_found(host: Namespace, commands: str, field: str) -> None:
    TABLE.apply(Scope(host))
    assert fields(TABLE, host) == []
    nft(host, commands)
    assert field in fields(TABLE, host)
    TABLE.remove(Scope(host))
    assert nft(host, "list ruleset") == ""


def test_elements_of_a_rules_own_set_count(host: Namespace) -> None:
    table = NftTable("inet", "t", "chain c { tcp dport { 22 counter, 80 counter } accept; }")
    other = NftTable("inet", "t", "chain c { tcp dport { 25 counter, 99 counter } accept; }")
    table.apply(Scope(host))
    nft(host, "flush chain inet t c; add rule inet t c tcp dport { 25 counter, 99 counter } accept")
    assert fields(table, host) != []
    assert fields(other, host) == ["owner"]


def test_counters_and_elements_of_named_sets_do_not_count(host: Namespace) -> None:
    TABLE.apply(Scope(host))
    NftElement("inet", "t", "verdicts", ("192.0.2.1",), verdict="drop").apply(Scope(host))
    subprocess_in(host, ["ip", "link", "set", "lo", "up"])
    subprocess_in(host, ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/22 || true"])
    assert fields(TABLE, host) == []


def subprocess_in(namespace: Namespace, words: list[str]) -> None:
    with namespace.entered():
        subprocess.run(words, check=True, capture_output=True)


def test_another_plans_table_of_the_same_name_is_left_alone(host: Namespace) -> None:
    TABLE.apply(Scope(host))
    other = NftTable("inet", "t", "chain c { accept; }")
    with pytest.raises(Conflict):
        other.apply(Scope(host))
    with pytest.raises(Conflict):
        other.remove(Scope(host))
    assert fields(TABLE, host) == []


@pytest.mark.parametrize(
    "body", ['include "/etc/passwd"', "flags owner;", "}\ntable inet evil {", 'chain c { "']
)
def test_a_body_that_is_more_than_a_table_is_refused(body: str) -> None:
    with pytest.raises(InvalidObject):
        NftTable("inet", "t", body)


def test_a_check_is_quick_beside_many_elements_and_other_peoples_changes(host: Namespace) -> None:
    """libnftables would load all elements, and begin again with every change."""
    TABLE.apply(Scope(host))
    listed = ", ".join(f'10.0.{number >> 8}.{number & 255} . "eth0"' for number in range(20_000))
    host.nft.run(f"add element inet t sources {{ {listed} }}")
    stop = threading.Event()
    theirs = Namespace.of_descriptor(host.fileno(), "theirs")

    def change() -> None:
        while not stop.is_set():
            nft(theirs, "add table ip noise; delete table ip noise")

    noise = threading.Thread(target=change)
    noise.start()
    try:
        start = time.monotonic()
        for _ in range(20):
            assert fields(TABLE, host) == []
        took = time.monotonic() - start
    finally:
        stop.set()
        noise.join()
        theirs.close()
    assert took < 5


def test_one_element_that_somebody_changed_does_not_keep_the_others(host: Namespace) -> None:
    TABLE.apply(Scope(host))
    elements = tuple(
        NftElement("inet", "t", "verdicts", (f"10.0.0.{n}",), verdict="accept") for n in (1, 2, 3)
    )
    plan = Plan(elements)
    apply(plan, Scope(host))
    nft(host, "delete element inet t verdicts { 10.0.0.2 }; add element inet t verdicts { 10.0.0.2 : drop }")
    with pytest.raises(Conflict):
        remove(plan, Scope(host))
    assert [difference.what for difference in check(plan, Scope(host))] == ["missing", "different", "missing"]


def test_an_element_that_is_spelled_twice_is_made_once(host: Namespace) -> None:
    NftTable("inet", "t", "set s { type ipv6_addr; }").apply(Scope(host))
    plan = Plan(tuple(NftElement("inet", "t", "s", (text,)) for text in ("fd00::1", "FD00:0::1")))
    assert [change.change for change in apply(plan, Scope(host))] == ["made", "kept"]
    assert check(plan, Scope(host)) == []
    remove(plan, Scope(host))
    assert check(plan, Scope(host)) != []


PORTS = NftTable(
    "inet",
    "t",
    "map ports { type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service; }\n"
    "map back { type ipv4_addr . inet_service : verdict; }\nset seen { type ipv4_addr . inet_service; }",
)


def mapped(number: int) -> Plan:
    """So many mapped ports, of three elements each."""
    elements: list[NftElement] = []
    for n in range(number):
        key = (f"10.0.{n >> 8}.{n & 255}", "80")
        elements += [
            NftElement("inet", "t", "ports", ("tcp", *key), value=("192.0.2.1", str(n + 1))),
            NftElement("inet", "t", "back", key, verdict="accept"),
            NftElement("inet", "t", "seen", key),
        ]
    return Plan(tuple(elements))


def elements_there(host: Namespace) -> int:
    return sum(
        len(nft_elements.read_elements(host.netfilter, "inet", "t", s) or ())
        for s in ("ports", "back", "seen")
    )


@pytest.mark.parametrize("number", [1000, 6667], ids=["3000", "20000"])
def test_thousands_of_elements_come_and_go_in_one_transaction(host: Namespace, number: int) -> None:
    PORTS.apply(Scope(host))
    plan = mapped(number)
    start = time.monotonic()
    assert {change.change for change in apply(plan, Scope(host))} == {"made"}
    assert elements_there(host) == 3 * number
    remove(plan, Scope(host))
    assert elements_there(host) == 0
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("number", [0, 1499, 2999])
def test_of_thousands_all_are_made_or_none(host: Namespace, number: int) -> None:
    PORTS.apply(Scope(host))
    plan = mapped(1000)
    element = plan.objects[number]
    assert isinstance(element, NftElement)
    other = {"ports": ' : "192.0.2.9" . 9', "back": " : drop", "seen": ""}[element.set]
    key = " . ".join(element.key)
    host.nft.run(f"add element inet t {element.set} {{ {key}{other} }}")
    if element.set == "seen":  # just so
        assert [change.change for change in apply(plan, Scope(host))].count("kept") == 1
        return
    with pytest.raises(Conflict):
        apply(plan, Scope(host))
    assert elements_there(host) == 1
    with pytest.raises(Conflict):
        remove(plan, Scope(host))
    assert elements_there(host) == 1


def test_of_thousands_those_go_that_are_there_and_ours(host: Namespace) -> None:
    PORTS.apply(Scope(host))
    plan = mapped(1000)
    apply(plan, Scope(host))
    nft(host, "delete element inet t seen { 10.0.0.1 . 80 }; delete element inet t back { 10.0.0.2 . 80 }")
    nft(host, "add element inet t back { 10.0.0.2 . 80 : drop }")
    with pytest.raises(Conflict) as refused:
        remove(plan, Scope(host))
    assert [found.field for found in refused.value.differences] == ["verdict"]
    assert elements_there(host) == 1


def test_a_plan_that_fails_takes_thousands_back_at_once(host: Namespace) -> None:
    PORTS.apply(Scope(host))
    start = time.monotonic()
    with pytest.raises(KernelError):
        apply(Plan((*mapped(1000).objects, Up("nobody"))), Scope(host))
    assert time.monotonic() - start < 10
    assert elements_there(host) == 0


def test_an_element_is_removed_from_a_set_whose_keys_have_changed_meanwhile(host: Namespace) -> None:
    """What was known of the set is asked again before an element counts as gone."""
    NftTable("inet", "t", "map m { type ipv4_addr . mark : mark; }").apply(Scope(host))
    apply(Plan((NftElement("inet", "t", "m", ("10.0.0.1", "7"), value=("1",)),)), Scope(host))
    nft(host, "delete table inet t")
    NftTable("inet", "t", "map m { type mark . ipv4_addr : mark; }").apply(Scope(host))
    nft(host, "add element inet t m { 7 . 10.0.0.1 : 1 }")
    remove(Plan((NftElement("inet", "t", "m", ("7", "10.0.0.1"), value=("1",)),)), Scope(host))
    assert nft_elements.read_elements(host.netfilter, "inet", "t", "m") == {}


def test_an_element_is_gone_already_if_somebody_flushes_the_ruleset_meanwhile(host: Namespace) -> None:
    plan = Plan((TABLE, NftElement("inet", "t", "verdicts", ("10.0.0.1",), verdict="accept")))
    stop = threading.Event()
    theirs = Namespace.of_descriptor(host.fileno(), "theirs")

    def flush() -> None:
        while not stop.is_set():
            nft(theirs, "flush ruleset")

    noise = threading.Thread(target=flush)
    noise.start()
    try:
        for _ in range(30):
            try:
                apply(plan, Scope(host))
            except KernelError:
                continue  # the table went between its two objects
            finally:
                remove(plan, Scope(host))
    finally:
        stop.set()
        noise.join()
        theirs.close()
