"""Firewalls that people really have: `doctor` names the chain, and the commands that it prints open it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from netloom.kernel import Namespace

from ..fixtures.internet import IPV4, IPV6, NODE, OUTSIDE, TCP, Answering, Internet, ask
from ..fixtures.machine import Machine
from ..fixtures.node import eventually
from .firewalls import Firewall, Firewalld, Ufw, docker_like, own_settings, plain_iptables, plain_nft

pytestmark = pytest.mark.interop

FIREWALLS: dict[str, Callable[[], Firewall]] = {
    "ufw": Ufw,
    "firewalld": Firewalld,
    "docker": docker_like,
    "nft": plain_nft,
    "iptables-nft": lambda: plain_iptables("nft"),
    "iptables-legacy": lambda: plain_iptables("legacy"),
}
WAYS = ("host", "outside", "port", "other", "container")
PORT = 8080
# What is dropped takes this long, each.
PATIENCE = 1.0


class Village(NamedTuple):
    """A node with two containers, one of which has a host port, and a machine outside."""

    machine: Machine
    internet: Internet
    container: str
    places: dict[str, Namespace]
    other: dict[str, str]

    def passing(self) -> set[str]:
        """Ways that work in both families; a way that works in one alone is no way that works."""
        inside, outside, host = self.places["one"], self.internet.outside, self.internet.host
        asked = {
            "host": (inside, NODE, PORT + 1),
            "outside": (inside, OUTSIDE, PORT + 2),
            "port": (outside, NODE, PORT),
            "other": (inside, self.other, 80),
            "container": (host, self.other, 80),
        }
        return {
            way
            for way, (place, addresses, port) in asked.items()
            if all(_answers(place, addresses[family], port) for family in (IPV4, IPV6))
        }

    def findings(self, command: str = "doctor", *words: str) -> list[dict[str, Any]]:
        listed = self.machine.run(command, *words, "--json").document["findings"]
        return [it for it in listed if it["code"] == "foreign-drop"]


def _answers(place: Namespace, address: str, port: int) -> bool:
    try:
        ask(place, TCP, address, port, patience=PATIENCE)
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def village() -> Iterator[Village]:
    with (
        own_settings(),
        tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory,
        Machine(Path(directory)) as machine,
    ):
        internet = Internet(machine.node)
        machine.node.inside("ip", "route", "add", "default", "via", OUTSIDE[IPV4])
        machine.node.inside("ip", "-6", "route", "add", "default", "via", OUTSIDE[IPV6])
        machine.brought_up()
        one, other = machine.node.container(), machine.node.container()
        mapping = '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
        machine.attach(one)
        answer = machine.attach(other, CAP_ARGS=mapping)
        addresses = [it["address"].partition("/")[0] for it in answer["ips"]]
        places = {name: Namespace.open(f"/run/netns/{it}") for name, it in (("one", one), ("other", other))}
        try:
            with (
                Answering(internet.host, "host", PORT + 1, protocols=(TCP,)),
                Answering(internet.outside, "outside", PORT + 2, protocols=(TCP,)),
                Answering(places["other"], "other", 80, protocols=(TCP,)),
            ):
                yield Village(machine, internet, one, places, dict(zip((IPV4, IPV6), addresses, strict=True)))
        finally:
            for it in places.values():
                it.close()
            internet.close()


@pytest.mark.parametrize("name", FIREWALLS)
def test_a_firewall_is_named_by_every_command_and_opened_by_what_they_print(
    village: Village, name: str
) -> None:
    assert eventually(lambda: village.passing() == set(WAYS))
    assert village.findings("doctor", "--only", "firewall") == []
    firewall, node = FIREWALLS[name](), village.machine.node
    firewall.start(node)
    try:
        # All of them keep containers from each other as they keep them from the outside.
        stopped = {"other", *(way for way, chains in firewall.subjects.items() if chains)}
        assert eventually(lambda: village.passing() == set(WAYS) - stopped)
        found = village.findings("doctor", "--only", "firewall")
        # What stops something is named, and nothing else is.
        assert {it["subject"] for it in found} == frozenset().union(*firewall.subjects.values())
        assert {it["subject"] for it in found if it["severity"] == "error"} == firewall.subjects["outside"]
        # And with the same words elsewhere.
        assert eventually(lambda: village.findings("status") == found)
        assert village.machine.run("status").status == 1
        # The one that is explained has no host port.
        told = village.findings("explain", village.container)
        assert {it["subject"] for it in told} == {it["subject"] for it in found}
        for it in found:
            commands = re.findall("`([^`]+)`", it["next"])
            assert len(set(commands)) == len(commands)
            for command in commands:
                firewall.run(node, command)
        assert eventually(lambda: village.passing() == set(WAYS))
        assert village.findings("doctor", "--only", "firewall") == []
        assert eventually(lambda: village.findings("status") == [])
    finally:
        firewall.stop(node)


def test_a_zone_of_firewalld_without_neighbour_discovery_is_opened(village: Village) -> None:
    """A person has taken from firewalld the policy that accepts it in every zone."""
    firewall, node = Firewalld(), village.machine.node
    firewall.start(node)
    try:
        for kind in ("neighbour-solicitation", "neighbour-advertisement"):
            rule = f'rule family="ipv6" icmp-type name="{kind}" accept'
            without = f"--policy=allow-host-ipv6 --remove-rich-rule='{rule}'"
            firewall.run(node, f"firewall-cmd --permanent {without}")
        firewall.run(node, "firewall-cmd --reload")
        firewall.run(node, "firewall-cmd --set-default-zone=drop")
        found = village.findings("doctor", "--only", "firewall")
        errors = {it["subject"] for it in found if it["severity"] == "error"}
        assert "inet firewalld filter_INPUT" in errors
        for it in found:
            for command in re.findall("`([^`]+)`", it["next"]):
                firewall.run(node, command)
        assert village.findings("doctor", "--only", "firewall") == []
    finally:
        firewall.stop(node)
