"""What `netloom doctor` says of other firewalls' rules is what the kernel does with packets."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel

DROPS, WARNED, PASSES = "error", "warning", None

FORWARD = "type filter hook forward priority filter; policy"
INPUT = "type filter hook input priority filter; policy"
OUTPUT = "type filter hook output priority filter; policy"

# Rules in a table of somebody else's, and what is to be said of them. `loom*` are containers' links.
RULESETS = {
    "a policy to drop": (f"chain f {{ {FORWARD} drop; }}", DROPS),
    "a policy to accept": (f"chain f {{ {FORWARD} accept; }}", PASSES),
    "a host that lets containers in by nothing but answers": (
        f"chain f {{ {INPUT} drop; ct state established,related accept; }}",
        WARNED,
    ),
    "a host that takes no answers either": (f"chain f {{ {INPUT} drop; }}", DROPS),
    "a host that lets containers in": (f'chain f {{ {INPUT} drop; iifname "loom*" accept; }}', PASSES),
    "a host that lets containers in by one port": (
        f"chain f {{ {INPUT} drop; ct state established accept; tcp dport 53 accept; }}",
        WARNED,
    ),
    "a host that sends nothing": (f"chain f {{ {OUTPUT} drop; }}", DROPS),
    "a host that sends answers alone": (f"chain f {{ {OUTPUT} drop; ct state established accept; }}", DROPS),
    "a host that sends all but mail": (f"chain f {{ {OUTPUT} accept; tcp dport 25 drop; }}", PASSES),
    "a host that sends all, behind many words": (
        f"chain g {{ ip daddr 198.51.100.0/24 drop; }}\nchain f {{ {OUTPUT} accept; jump g; accept; }}",
        PASSES,
    ),
    "links that are let in": (f'chain f {{ {FORWARD} drop; iifname "loom*" accept; }}', PASSES),
    "links that are let out": (f'chain f {{ {FORWARD} drop; oifname "loom*" accept; }}', PASSES),
    "links of a set": (f'chain f {{ {FORWARD} drop; iifname {{ "eth0", "loom*" }} accept; }}', PASSES),
    "links of others": (f'chain f {{ {FORWARD} drop; iifname {{ "eth0", "docker0" }} accept; }}', DROPS),
    "all links but one": (f'chain f {{ {FORWARD} drop; iifname != "eth0" accept; }}', PASSES),
    "pools that are let through": (
        f"chain f {{ {FORWARD} drop; ip saddr 10.78.0.0/16 accept; ip6 saddr fd78::/64 accept; }}",
        PASSES,
    ),
    "a larger network that is let through": (
        f"chain f {{ {FORWARD} drop; ip saddr 10.0.0.0/8 accept; ip6 saddr fd00::/8 accept; }}",
        PASSES,
    ),
    "a range that is let through": (
        f"chain f {{ {FORWARD} drop; ip saddr 10.77.0.0-10.79.0.0 accept; meta nfproto ipv6 accept; }}",
        PASSES,
    ),
    "another network that is let through": (
        f"chain f {{ {FORWARD} drop; ip saddr 192.168.0.0/16 accept; ip6 saddr fd99::/64 accept; }}",
        DROPS,
    ),
    "one family that is let through": (f"chain f {{ {FORWARD} drop; meta nfproto ipv4 accept; }}", DROPS),
    "answers alone": (f"chain f {{ {FORWARD} drop; ct state established,related accept; }}", DROPS),
    "answers, and what begins": (
        f"chain f {{ {FORWARD} drop; ct state established,related accept; ct state new accept; }}",
        PASSES,
    ),
    "answers by a map": (
        f"chain f {{ {FORWARD} drop; ct state vmap {{ established : accept, new : accept }}; }}",
        PASSES,
    ),
    "a rule that drops all": (f"chain f {{ {FORWARD} accept; drop; }}", DROPS),
    "a rule that rejects all": (
        f"chain f {{ {FORWARD} accept; reject with icmpx admin-prohibited; }}",
        DROPS,
    ),
    "a rule that rejects the pools": (
        f"chain f {{ {FORWARD} accept; ip daddr 10.78.0.0/16 reject; ip6 daddr fd78::/64 reject; }}",
        DROPS,
    ),
    "a rule about a port": (f"chain f {{ {FORWARD} accept; tcp dport 25 drop; }}", PASSES),
    "a rule about a mark": (f"chain f {{ {FORWARD} accept; meta mark 7 drop; }}", PASSES),
    "a chain behind that drops": (
        f"chain behind {{ drop; }}\nchain f {{ {FORWARD} accept; jump behind; }}",
        DROPS,
    ),
    "a chain behind that returns": (
        f"chain behind {{ return; }}\nchain f {{ {FORWARD} accept; jump behind; }}",
        PASSES,
    ),
    "a chain behind that accepts": (
        f'chain behind {{ iifname "loom*" accept; }}\nchain f {{ {FORWARD} drop; goto behind; }}',
        PASSES,
    ),
    "a chain behind for others": (
        f'chain behind {{ drop; }}\nchain f {{ {FORWARD} accept; iifname "docker0" jump behind; }}',
        PASSES,
    ),
    "a drop before routing": (
        'chain f { type filter hook prerouting priority filter; policy accept; iifname "loom*" drop; }',
        DROPS,
    ),
    "a drop after routing": (
        'chain f { type filter hook postrouting priority filter; policy accept; oifname "loom*" drop; }',
        DROPS,
    ),
    "a set without our links": (
        f"set s {{ type ifname; }}\nchain f {{ {FORWARD} drop; iifname @s accept; }}",
        DROPS,
    ),
    "a set of networks": (
        "set s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 172.16.0.0/12 }; }\n"
        f"chain f {{ {FORWARD} drop; ip saddr @s accept; meta nfproto ipv6 accept; }}",
        PASSES,
    ),
    "a mark that lets through, and that no packet has": (
        f"chain f {{ {FORWARD} drop; meta mark 7 accept; }}",
        DROPS,
    ),
    "a mark that a chain before sets": (
        "chain g { type filter hook prerouting priority mangle; policy accept; meta mark set 7; }\n"
        f"chain f {{ {FORWARD} drop; meta mark 7 accept; }}",
        PASSES,
    ),
    "a rate that lets through": (f"chain f {{ {FORWARD} drop; limit rate 1/day accept; }}", WARNED),
    "a rate that is too high": (f"chain f {{ {FORWARD} accept; limit rate over 9/second drop; }}", WARNED),
    "a port that is let through": (f"chain f {{ {FORWARD} drop; tcp dport 443 accept; }}", WARNED),
}


class Street(NamedTuple):
    machine: Machine
    one: str
    addresses: list[str]

    def passes(self) -> bool:
        """Whether containers reach each other, and the host reaches them."""
        return all(self.machine.node.ping(self.one, it) and self.machine.reaches(it) for it in self.addresses)

    def is_cut(self) -> bool:
        """Whether one of them is not reached. Nothing is waited for long: here, no answer comes."""
        return not all(
            self.machine.node.ping(self.one, it, 1) and self.machine.reaches(it, 1) for it in self.addresses
        )

    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.machine.run("doctor", "--json", "--only", "firewall").document[
            "findings"
        ]
        return found

    def drops(self) -> list[dict[str, Any]]:
        return [it for it in self.findings() if it["code"] == "foreign-drop"]


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    """Two containers on a node, which reach each other."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as made:
        made.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
        made.node.inside("ip", "address", "add", "2001:db8::1/128", "dev", "lo")
        made.brought_up()
        one, other = made.node.container(), made.node.container()
        made.attach(one)
        addresses = [it["address"].split("/")[0] for it in made.attach(other)["ips"]]
        yield Street(made, one, addresses)


@pytest.fixture(autouse=True)
def _without_others(street: Street) -> Iterator[None]:
    yield
    for table in street.machine.tables:
        if table != "table inet netloom":
            street.machine.node.inside("nft", f"delete {table}")


@pytest.mark.parametrize("name", RULESETS)
def test_what_is_said_of_rules_is_what_they_do(street: Street, name: str) -> None:
    rules, expected = RULESETS[name]
    street.machine.node.inside("nft", f"table inet theirs {{\n{rules}\n}}")
    assert [it["severity"] for it in street.findings()] == [expected] * (expected is not None)
    if expected != WARNED:
        assert street.passes() if expected is PASSES else street.is_cut()


def iptables(street: Street, *commands: str) -> None:
    for command in commands:
        for program in ("iptables", "ip6tables"):
            street.machine.node.inside(program, *shlex.split(command))


def test_a_firewall_as_docker_makes_it_is_named_and_its_own_chain_is_the_remedy(street: Street) -> None:
    iptables(
        street,
        "-P FORWARD DROP",
        "-N DOCKER-USER",
        "-A DOCKER-USER -j RETURN",
        "-A FORWARD -j DOCKER-USER",
        "-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A FORWARD -i docker0 ! -o docker0 -j ACCEPT",
        "-A FORWARD -i docker0 -o docker0 -j ACCEPT",
    )
    assert street.is_cut()
    found = street.findings()
    assert [(it["code"], it["severity"], it["subject"]) for it in found] == [
        ("foreign-drop", "error", "ip filter FORWARD"),
        ("foreign-drop", "error", "ip6 filter FORWARD"),
    ]
    for it in found:
        for command in re.findall("`([^`]+)`", it["next"]):
            assert "DOCKER-USER" in command
            street.machine.node.inside(*shlex.split(command))
    assert street.passes()
    assert street.findings() == []


def test_what_cannot_be_told_of_a_chain_of_iptables_is_a_warning(street: Street) -> None:
    iptables(street, "-P FORWARD DROP", "-A FORWARD -m limit --limit 1/day -j ACCEPT")
    assert {it["severity"] for it in street.findings()} == {"warning"}


def test_answers_alone_in_a_chain_of_iptables_are_not_enough(street: Street) -> None:
    iptables(street, "-P FORWARD DROP", "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    assert street.is_cut()
    assert {it["severity"] for it in street.findings()} == {"error"}


def test_a_firewall_that_lets_out_and_drops_answers_is_named(street: Street) -> None:
    node = street.machine.node
    node.inside("ip", "link", "add", "lan0", "type", "bridge")
    try:
        node.inside("ip", "link", "set", "lan0", "up")
        node.inside("ip", "route", "add", "default", "dev", "lan0")
        node.inside(
            "nft",
            f'table inet theirs {{\nchain f {{ {FORWARD} accept; iifname "lan0" oifname "loom*" drop; }}\n}}',
        )
        assert [it["severity"] for it in street.findings()] == ["error"]
    finally:
        node.inside("ip", "link", "del", "lan0")


def opened(street: Street) -> None:
    """Runs the commands that the findings print."""
    for it in street.drops():
        for command in re.findall("`([^`]+)`", it["next"]):
            street.machine.node.inside(*shlex.split(command))


# Chains of links, of which LINK is that of one container: the table's family, the chain, and what is said.
OF_LINKS = {
    "what comes in by a link": ("netdev", "hook ingress device LINK priority 0; policy drop;", DROPS),
    "what comes in by some links": (
        "netdev",
        "hook ingress devices = { lo, LINK } priority 0; policy accept; ip saddr 10.78.0.0/16 drop;",
        DROPS,
    ),
    "what goes out by a link": ("netdev", "hook egress device LINK priority 0; policy drop;", DROPS),
    "what comes in by a link, in a table of inet": (
        "inet",
        "hook ingress device LINK priority 0; policy drop;",
        DROPS,
    ),
    "IP by a link, and nothing else": (
        "netdev",
        "hook ingress device LINK priority 0; policy drop; ether type { ip, ip6 } accept;",
        PASSES,
    ),
    "what comes in by another link": ("netdev", "hook ingress device lo priority 0; policy drop;", PASSES),
}


@pytest.mark.parametrize("name", OF_LINKS)
def test_a_chain_of_a_containers_link_is_named_and_opened(street: Street, name: str) -> None:
    family, chain, expected = OF_LINKS[name]
    own = chain.replace("LINK", street.machine.listed()[0]["hostLink"])
    street.machine.node.inside("nft", f"table {family} theirs {{\nchain f {{ type filter {own} }}\n}}")
    assert [(it["severity"], it["subject"]) for it in street.findings()] == [
        (expected, f"{family} theirs f")
    ] * (expected is not None)
    assert street.passes() if expected is PASSES else street.is_cut()
    opened(street)
    assert street.findings() == []
    assert street.passes()


def test_a_chain_of_one_link_is_explained_for_its_container_alone(street: Street) -> None:
    one, other = street.machine.listed()[:2]
    street.machine.node.inside(
        "nft",
        "table netdev theirs { chain f { type filter hook ingress "
        f"device {one['hostLink']} priority 0; policy drop; }}; }}",
    )
    told = [
        [
            it["subject"]
            for it in street.machine.run("explain", row["containerID"], "--json").document["findings"]
            if it["code"] == "foreign-drop"
        ]
        for row in (one, other)
    ]
    assert told == [["netdev theirs f"], []]


OUTSIDE = ("198.51.100.2", "2001:db8:1::2")

_ANSWERS = "ct state established,related accept;"
_XT_ANSWERS = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
# Commands that drop what host and gateway need to find each other.
WITHOUT_NEIGHBOURS = {
    "output": [
        f"nft 'table inet theirs {{ chain f {{ {OUTPUT} drop; {_ANSWERS} oifname loom* accept; }}; }}'"
    ],
    "input": [f"nft 'table inet theirs {{ chain f {{ {INPUT} drop; {_ANSWERS} iifname loom* accept; }}; }}'"],
    "postrouting": [
        "nft 'table ip6 theirs { chain f { type filter hook postrouting priority 0;"
        " icmpv6 type nd-neighbor-solicit drop; }; }'"
    ],
    "egress": [
        "nft 'table netdev theirs { chain f { type filter hook egress device up0 priority 0; policy drop;"
        " ip6 daddr != ff00::/8 accept; meta protocol != ip6 accept; }; }'"
    ],
    "ARP in": ["nft 'table arp theirs { chain f { type filter hook input priority 0; policy drop; }; }'"],
    "ARP out": [
        "nft 'table arp theirs { chain f { type filter hook output priority 0;"
        " arp operation request drop; }; }'"
    ],
    "ARP by a link": [
        "nft 'table netdev theirs { chain f { type filter hook ingress device up0 priority 0; policy drop;"
        " meta protocol { ip, ip6 } accept; }; }'"
    ],
    "arptables": ["arptables-nft -P INPUT DROP"],
    "ip6tables": [
        "ip6tables -P INPUT DROP",
        f"ip6tables -A INPUT {_XT_ANSWERS}",
        "ip6tables -A INPUT -i loom+ -j ACCEPT",
    ],
    "ip6tables-legacy": [
        "ip6tables-legacy -P OUTPUT DROP",
        f"ip6tables-legacy -A OUTPUT {_XT_ANSWERS}",
        "ip6tables-legacy -A OUTPUT -o loom+ -j ACCEPT",
    ],
}


class TestUplink:
    """Host and gateway have to find each other before anything of a container leaves."""

    @pytest.fixture(scope="class")
    @classmethod
    def outside(cls, street: Street) -> Iterator[str]:
        """A namespace behind the uplink, which is the gateway."""
        node = street.machine.node
        outer = node.container()
        node.inside("ip", "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", outer)
        node.inside("ip", "link", "set", "up0", "up")
        node.in_container(outer, "ip", "link", "set", "eth0", "up")
        for address in OUTSIDE:
            prefix, nodad = ("64", ["nodad"]) if ":" in address else ("24", [])
            own = f"{address[:-1]}1/{prefix}"
            node.inside("ip", "address", "add", own, "dev", "up0", *nodad)
            node.in_container(outer, "ip", "address", "add", f"{address}/{prefix}", "dev", "eth0", *nodad)
            node.inside("ip", "route", "add", "default", "via", address)
        yield outer
        node.inside("ip", "link", "del", "up0")

    @pytest.fixture(autouse=True)
    def _with_legacy_open(self, street: Street) -> Iterator[None]:
        yield
        for program in ("iptables-legacy", "ip6tables-legacy"):
            for chain in ("INPUT", "OUTPUT"):
                street.machine.node.inside(program, "-P", chain, "ACCEPT")
            street.machine.node.inside(program, "-F")

    def gets_out(self, street: Street, outside: str) -> bool:
        """Whether a container reaches the gateway, when host and gateway do not know each other."""
        node = street.machine.node
        for family in ("-4", "-6"):
            node.inside("ip", family, "neigh", "flush", "dev", "up0")
            node.in_container(outside, "ip", family, "neigh", "flush", "dev", "eth0")
        return all(node.ping(street.one, address) for address in OUTSIDE)

    @pytest.mark.parametrize("name", WITHOUT_NEIGHBOURS)
    def test_a_firewall_without_neighbour_discovery_is_named_and_opened(
        self, street: Street, outside: str, name: str
    ) -> None:
        assert self.gets_out(street, outside)
        for command in WITHOUT_NEIGHBOURS[name]:
            street.machine.node.inside(*shlex.split(command))
        assert not self.gets_out(street, outside)
        assert [it["severity"] for it in street.drops()] == ["error"]
        opened(street)
        assert street.drops() == []
        assert self.gets_out(street, outside)

    def test_what_the_gateway_asks_is_needed_too(self, street: Street, outside: str) -> None:
        """A host that knows its gateway is not known by it."""
        node = street.machine.node
        (link,) = json.loads(node.in_container(outside, "ip", "-json", "link", "show", "eth0").stdout)
        node.inside(
            "nft",
            "table ip6 theirs {\n"
            f"chain f {{ {INPUT} accept; iifname up0 icmpv6 type nd-neighbor-solicit drop; }}\n}}",
        )
        node.inside("ip", "neigh", "replace", OUTSIDE[1], "lladdr", link["address"], "dev", "up0")
        node.in_container(outside, "ip", "-6", "neigh", "flush", "dev", "eth0")
        assert not node.ping(street.one, OUTSIDE[1])
        assert [it["severity"] for it in street.drops()] == ["error"]
        opened(street)
        assert street.drops() == []
        assert node.ping(street.one, OUTSIDE[1])

    @pytest.mark.usefixtures("outside")
    def test_a_link_that_resolves_no_neighbours_needs_no_discovery(self, street: Street) -> None:
        node = street.machine.node
        node.inside("ip", "link", "set", "up0", "arp", "off")
        try:
            node.inside("nft", f"table inet theirs {{ chain f {{ {INPUT} drop; {_ANSWERS} }}; }}")
            assert [it["severity"] for it in street.drops()] == ["warning"]
        finally:
            node.inside("ip", "link", "set", "up0", "arp", "on")


class TestLegacy:
    """The old iptables, which nftables does not know of."""

    @pytest.fixture(autouse=True)
    def _with_iptables_of_old(self, street: Street) -> Iterator[None]:
        node = street.machine.node
        node.inside("iptables-legacy", "-L")
        yield
        node.inside("iptables-legacy", "-P", "FORWARD", "ACCEPT")
        node.inside("iptables-legacy", "-F")

    def test_tables_that_are_empty_are_no_finding(self, street: Street) -> None:
        assert street.findings() == []

    def test_a_policy_to_drop_is_found(self, street: Street) -> None:
        street.machine.node.inside("iptables-legacy", "-P", "FORWARD", "DROP")
        assert street.is_cut()
        (found,) = street.findings()
        assert (found["code"], found["severity"]) == ("foreign-drop", "error")
        assert found["subject"] == "iptables-legacy filter FORWARD"
        for command in re.findall("`([^`]+)`", found["next"]):
            street.machine.node.inside(*shlex.split(command))
        assert street.passes()
        assert "error" not in {it["severity"] for it in street.findings()}

    def test_rules_are_a_warning(self, street: Street) -> None:
        street.machine.node.inside(
            "iptables-legacy", "-A", "INPUT", "-p", "tcp", "--dport", "25", "-j", "DROP"
        )
        assert [(it["code"], it["severity"], it["subject"]) for it in street.findings()] == [
            ("legacy-iptables", "warning", "iptables-legacy")
        ]
