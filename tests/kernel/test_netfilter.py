"""What is told of a packet's fate by reading rules is what the kernel does with the packet.

hypothesis makes rulesets of nftables, iptables and iptables-legacy. Each is loaded into a namespace that
stands between a container and the outside, real packets are sent, and the kernel counts those that pass.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from netloom.kernel import KernelError, Namespace
from netloom.kernel.netfilter.field import Field
from netloom.kernel.netfilter.legacy import LegacyTables
from netloom.kernel.netfilter.nft import Nftables
from netloom.kernel.netfilter.packet import (
    HOOKS,
    LOCAL,
    NEW,
    TCP,
    UDP,
    Hook,
    Marks,
    Packet,
    PacketLink,
)
from netloom.kernel.netfilter.rules import BaseChain, FirewallRule, PacketFilter
from netloom.kernel.netfilter.trace import Budget, trace

from ..fixtures.node import eventually
from ..search import examples

pytestmark = pytest.mark.kernel

ORACLE = "oracle"
# Before every chain of a test, and behind every one.
_COUNTS = f"""
table inet {ORACLE} {{
  counter came {{ }}
  counter went {{ }}
  chain a {{
    type filter hook ingress device loom1 priority -1000; meta l4proto {{ tcp, udp }} counter name came;
  }}
  chain b {{ type filter hook output priority -1000; meta l4proto {{ tcp, udp }} counter name came; }}
  chain c {{ type filter hook input priority 1000; meta l4proto {{ tcp, udp }} counter name went; }}
  chain d {{ type filter hook postrouting priority 1000; meta l4proto {{ tcp, udp }} counter name went; }}
}}
"""
PORT = 5000
CONTAINER, HOST, OUTSIDE, UPLINK = "10.9.0.2", "10.9.0.1", "192.0.2.2", "192.0.2.1"


class Way(NamedTuple):
    """From whom to whom, by which hooks, and by which links of the host."""

    sender: str
    source: str
    target: str
    hooks: tuple[Hook, ...]
    iif: str | None
    oif: str | None


WAYS = {
    "out": Way(
        "inner", CONTAINER, OUTSIDE, ("ingress", "prerouting", "forward", "postrouting"), "loom1", "up0"
    ),
    "in": Way("inner", CONTAINER, HOST, ("ingress", "prerouting", "input"), "loom1", None),
    "own": Way("host", HOST, CONTAINER, ("output", "postrouting"), None, "loom1"),
}


class Street:
    """A container, a host and somebody outside, as namespaces with names of their own."""

    def __init__(self) -> None:
        self.names = {it: f"nf{os.getpid()}-{it}" for it in ("inner", "host", "outer")}
        for name in self.names.values():
            _run("ip", "netns", "add", name)
        self._join("inner", "eth0", f"{CONTAINER}/24", "loom1", f"{HOST}/24")
        self._join("outer", "eth0", f"{OUTSIDE}/24", "up0", f"{UPLINK}/24")
        self.inside("inner", "ip", "route", "add", "default", "via", HOST)
        self.inside("outer", "ip", "route", "add", "default", "via", UPLINK)
        self.inside("host", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.spaces = {it: Namespace.open(f"/run/netns/{name}") for it, name in self.names.items()}
        self.host = self.spaces["host"]
        self.host.nft.run(_COUNTS)
        self.ports = itertools.count(20000)

    def _join(self, other: str, name: str, address: str, link: str, own: str) -> None:
        here, there = self.names["host"], self.names[other]
        _run("ip", "-n", here, "link", "add", link, "type", "veth", "peer", "name", name, "netns", there)
        for namespace, one, ip in ((here, link, own), (there, name, address)):
            _run("ip", "-n", namespace, "address", "add", ip, "dev", one)
            _run("ip", "-n", namespace, "link", "set", one, "up")
            _run("ip", "-n", namespace, "link", "set", "lo", "up")

    def inside(self, who: str, *words: str, stdin: str = "") -> str:
        return _run("ip", "netns", "exec", self.names[who], *words, stdin=stdin)

    def close(self) -> None:
        for space in self.spaces.values():
            space.close()
        for name in self.names.values():
            _run("ip", "netns", "del", name)

    def link(self, name: str | None) -> PacketLink | None:
        return None if name is None else PacketLink(name, self.host.route.index(name))

    def counted(self) -> tuple[int, int]:
        said = self.host.nft.run(f"list counters table inet {ORACLE}").split()
        came, went = (int(said[number + 1]) for number, word in enumerate(said) if word == "packets")
        return came, went

    def passes(self, sender: str, protocol: int, port: int, target: tuple[str, int]) -> bool:
        """Whether a packet gets through all of the host's rules."""
        came, went = self.counted()
        kind = socket.SOCK_DGRAM if protocol == UDP else socket.SOCK_STREAM
        with self.spaces[sender].entered():
            own = socket.socket(socket.AF_INET, kind)
        with own:
            own.setblocking(False)
            own.bind(("0.0.0.0", port))
            try:
                own.sendto(b"x", target) if protocol == UDP else own.connect_ex(target)
            except PermissionError:  # the hook output tells the sender
                return False
            assert eventually(lambda: self.counted()[0] > came)
            return self.counted()[1] > went

    def verdict(self, rules: PacketFilter, way: Way, packet: Packet, *, skip: str = ORACLE) -> str:
        """What the tracer says of the whole way."""
        marks = Marks(packet.state)
        for hook in way.hooks:
            for base in sorted(rules.bases(), key=lambda it: it.priority):
                if base.hook != hook or base.table == skip or not base.sees(4):
                    continue
                if base.devices and not base.is_of(way.iif or ""):
                    continue
                found = trace(rules, base, seen(packet, base), marks, Budget())
                if found.outcome != "passes":
                    return found.outcome
        return "passes"


def seen(packet: Packet, base: BaseChain) -> Packet:
    return replace(
        packet,
        hook=base.hook,
        iif=None if base.hook == "output" else packet.iif,
        oif=None if base.hook in ("ingress", "prerouting", "input") else packet.oif,
        is_tracked=base.hook != "ingress"
        and (base.hook not in ("prerouting", "output") or base.priority > -200),
    )


def _run(*words: str, stdin: str = "") -> str:
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}\n{stdin}"
    return done.stdout


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    made = Street()
    try:
        yield made
    finally:
        made.close()


def compare(street: Street, rules: PacketFilter, names: Sequence[str]) -> None:
    """The tracer's word and the kernel's, of packets that leave nothing open."""
    for name in names:
        way = WAYS[name]
        for protocol in (UDP, TCP):
            port = next(street.ports)
            packet = Packet(
                family=4,
                hook=way.hooks[0],
                iif=street.link(way.iif),
                oif=street.link(way.oif),
                source=Field.of(socket.inet_aton(way.source)),
                destination=Field.of(socket.inet_aton(way.target)),
                source_type=LOCAL if way.sender == "host" else 1,
                destination_type=LOCAL if way.target == HOST else 1,
                protocol=protocol,
                ports=(Field.of(port.to_bytes(2, "big")), Field.of(PORT.to_bytes(2, "big"))),
                state=NEW,
            )
            told = street.verdict(rules, way, packet)
            did = street.passes(way.sender, protocol, port, (way.target, PORT))
            assert (told, did) in (("passes", True), ("drops", False)), (name, protocol)


# nftables.

_MATCHES = (
    'iifname "loom*"', 'iifname "loom1"', 'iifname != "loom1"', 'iifname { "loom1", "eth7" }',
    'oifname "up0"', 'oifname { "up*", "x" }', 'oifname "loom*"', 'oifname != "up0"', "iif loom1",
    "oif != up0", "iif lo", "ip saddr 10.9.0.2", "ip saddr 10.9.0.0/24", "ip saddr != 10.9.0.0/25",
    "ip saddr 10.0.0.0-10.9.0.1",
    "ip saddr { 10.9.0.0/30, 172.16.0.0/12 }", "ip daddr 192.0.2.0/24", "ip daddr { 192.0.2.2, 10.9.0.1 }",
    "ip daddr != { 192.0.2.0/31, 10.0.0.0/8 }", "ip6 saddr fd00::/8", "ip protocol udp", "meta l4proto tcp",
    "meta l4proto { tcp, icmp }", "meta nfproto ipv4", "meta nfproto ipv6", "udp dport 5000",
    "udp dport 1-4999", "tcp dport { 22, 4000-6000 }", "th dport != 5000", "udp sport > 1024",
    "udp dport < 5000", "tcp sport >= 20000", "ct state new", "ct state established,related",
    "ct state { new, established }", "ct state != new", "ct state invalid", "ct state & new == new",
    "ct status dnat", "ct direction reply", "ct direction original", "ct mark 0", "meta mark 0",
    "meta mark 7",
    "meta mark & 0x3 == 0x3", "fib daddr type local", "fib daddr type != local", "fib saddr type local",
    "fib saddr . iif oif exists", "fib saddr . iif oif missing", "tcp flags syn",
    "tcp flags & (syn|ack) == syn",
    "tcp flags ack", "ip saddr . th dport { 10.9.0.2 . 5000, 10.9.0.3 . 22 }",
    "ip saddr . th dport { 10.9.0.0/24 . 1-5000, 10.8.0.0/16 . 22 }", "ip saddr @hosts", "ip saddr @nets",
    "ip daddr != @nets", "iifname . ip saddr { loom1 . 10.9.0.2 }", "meta pkttype host", "ip version 4",
    "meta skuid 0", "ip frag-off & 0x1fff == 0", "meta iifkind veth", "",
)  # fmt: skip
# What depends on more than the packet, and is not compared where the kernel alone can know.
_UNTOLD = ("meta skuid 0", "meta iifkind veth", "meta pkttype host", "fib saddr . iif oif")
_MAPS = (
    "ct state vmap { new : accept, established : drop }",
    "th dport vmap { 22 : accept, 4000-6000 : jump a }",
    "ip saddr vmap { 10.9.0.0/24 : goto b, 10.8.0.0/16 : accept }",
    "meta l4proto vmap { tcp : drop, udp : continue }",
    "ip saddr . th dport vmap { 10.9.0.2 . 5000 : jump b }",
    "iifname vmap @links",
)
_ENDS = ("accept", "drop", "return", "continue", "counter", "meta mark set 7", "reject", "ct mark set 1")
_JUMPS = ("jump a", "goto a", "jump b", "goto b")
_DEVICE_HOOKS = (
    "ingress device loom1",
    "ingress devices = { up0, loom1 }",
    "ingress device up0",
)


def rules_of(ends: Sequence[str]) -> st.SearchStrategy[list[str]]:
    matches = [it for it in _MATCHES if not it.startswith(_UNTOLD)]
    plain = st.tuples(st.sampled_from(matches), st.sampled_from(matches), st.sampled_from(ends)).map(" ".join)
    return st.lists(plain, max_size=4)


class Ruleset(NamedTuple):
    """Chains without rules, and rules that are added one by one: some are refused at some hooks."""

    chains: str
    rules: list[str]


@st.composite
def nft_rulesets(draw: st.DrawFn) -> Ruleset:
    chains = [
        "set hosts { type ipv4_addr; elements = { 10.9.0.2, 10.1.1.1 }; }",
        "set nets { type ipv4_addr; flags interval; elements = { 192.0.2.0/24, 10.9.0.0/29 }; }",
        "chain b { }",
        "chain a { }",
        'map links { type ifname : verdict; elements = { "loom1" : jump a, "up0" : drop }; }',
    ]
    rules = [f"b {it}" for it in draw(rules_of(_ENDS))]
    rules += [f"a {it}" for it in draw(rules_of((*_ENDS, "jump b", "goto b")))]
    for number in range(draw(st.integers(1, 3))):
        hook = draw(st.sampled_from((*_DEVICE_HOOKS, *HOOKS)))
        priority = draw(st.sampled_from((-310, -150, 0, 50)))
        policy = draw(st.sampled_from(("accept", "drop")))
        listed = draw(rules_of((*_ENDS, *_JUMPS)))
        if draw(st.booleans()):
            listed.insert(draw(st.integers(0, len(listed))), draw(st.sampled_from(_MAPS)))
        chains.append(
            f"chain base{number} {{ type filter hook {hook} priority {priority}; policy {policy}; }}"
        )
        rules += [f"base{number} {it}" for it in listed]
    return Ruleset("table inet theirs {\n" + "\n".join(chains) + "\n}\n", rules)


@settings(suppress_health_check=list(HealthCheck), max_examples=examples(60))
@given(ruleset=nft_rulesets())
def test_rules_of_nftables(street: Street, ruleset: Ruleset) -> None:
    street.host.nft.run(ruleset.chains)
    try:
        for rule in ruleset.rules:
            with suppress(KernelError):
                street.host.nft.run(f"add rule inet theirs {rule}")
        compare(street, Nftables(street.host.netfilter), tuple(WAYS))
    finally:
        street.host.nft.run("delete table inet theirs")


# iptables, of both kinds.

_XT_MATCHES = (
    "-i loom+", "-i loom1", "! -i loom1", "-i eth+", "-s 10.9.0.0/24", "-s 10.9.0.2", "! -s 10.9.0.0/28",
    "-d 192.0.2.0/24", "! -d 10.9.0.1", "-p udp", "! -p udp", "-p tcp", "-p udp -m udp --dport 5000",
    "-p udp -m udp ! --dport 5000", "-p tcp -m tcp --dport 1:4999", "-p tcp -m tcp --sport 20000:65535",
    "-p tcp -m tcp --syn", "-p tcp -m tcp --tcp-flags ALL ACK", "-p udp -m multiport --dports 22,4000:6000",
    "-p tcp -m multiport ! --dports 22,5000", "-m conntrack --ctstate NEW", "-m conntrack ! --ctstate NEW",
    "-m conntrack --ctstate ESTABLISHED,RELATED", "-m conntrack --ctstate DNAT", "-m state --state NEW",
    "-m conntrack --ctstate INVALID", "-m conntrack --ctdir ORIGINAL", "-m addrtype --dst-type LOCAL",
    "-m addrtype ! --dst-type LOCAL", "-m addrtype --src-type UNICAST", "-m mark --mark 7/0xff",
    "-m mark ! --mark 0x1", "-m connmark --mark 0", "-m iprange --src-range 10.9.0.1-10.9.0.9",
    "-m iprange ! --dst-range 192.0.2.0-192.0.2.9", "-m comment --comment words",
    "-p icmp -m icmp --icmp-type 8",
    "-m physdev --physdev-is-bridged", "-m physdev ! --physdev-is-bridged", "",
)  # fmt: skip
_XT_ENDS = ("-j ACCEPT", "-j DROP", "-j RETURN", "-j MARK --set-mark 7", "-j MARK --set-xmark 0x1/0x3", "",
            "-j CONNMARK --set-mark 3", "-j LOG")  # fmt: skip
_OUTGOING = ("OUTPUT", "POSTROUTING")


@st.composite
def iptables_rulesets(draw: st.DrawFn) -> str:
    table = draw(st.sampled_from(("filter", "mangle", "raw")))
    hooks = {
        "filter": ("INPUT", "FORWARD", "OUTPUT"),
        "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
        "raw": ("PREROUTING", "OUTPUT"),
    }[table]
    lines = [f"*{table}", *(f":{it} {draw(st.sampled_from(('ACCEPT', 'DROP')))} [0:0]" for it in hooks)]
    lines += [":one - [0:0]", ":two - [0:0]"]
    for chain, jumps in (
        ("two", ()),
        ("one", ("-j two", "-g two")),
        *((it, ("-j one", "-g two")) for it in hooks),
    ):
        for _ in range(draw(st.integers(0, 4))):
            # Links are what firewalls match most.
            matches = st.sampled_from(_XT_MATCHES) | st.sampled_from(_XT_MATCHES[:4])
            match, end = draw(matches), draw(st.sampled_from((*_XT_ENDS, *jumps)))
            if chain in _OUTGOING and "-i " in match:
                continue
            if end.startswith("-j CONNMARK") and table == "raw":
                continue
            lines.append(f"-A {chain} {match} {end}".rstrip())
    return "\n".join([*lines, "COMMIT", ""])


@pytest.mark.parametrize("kind", ["nft", "legacy"])
@settings(suppress_health_check=list(HealthCheck), max_examples=examples(40))
@given(text=iptables_rulesets())
def test_rules_of_iptables(street: Street, kind: str, text: str) -> None:
    street.inside("host", f"iptables-{kind}-restore", stdin=text)
    try:
        if kind == "nft":
            compare(street, Nftables(street.host.netfilter), tuple(WAYS))
        else:
            compare(street, OnHost(street), tuple(WAYS))
    finally:
        table = text.partition("\n")[0][1:]
        policies = "".join(
            f":{it.split()[0][1:]} ACCEPT [0:0]\n"
            for it in text.splitlines()
            if it[:1] == ":" and it.split()[1] != "-"
        )
        street.inside("host", f"iptables-{kind}-restore", stdin=f"*{table}\n{policies}COMMIT\n")


class OnHost:
    """Tables of iptables-legacy of the street's host, which only its own threads can read."""

    def __init__(self, street: Street) -> None:
        self._rules = LegacyTables()
        with street.host.entered():
            self._bases = self._rules.bases()

    def bases(self) -> Sequence[BaseChain]:
        return self._bases

    def rules(self, base: BaseChain, chain: str) -> Sequence[FirewallRule]:
        return self._rules.rules(base, chain)
