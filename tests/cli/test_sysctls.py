"""Settings of the kernel that `netloom doctor` names really drop packets, and no others do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netloom.kernel import Namespace

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

FAR, PORT = "203.0.113.9", 4711


def findings(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.run("doctor", "--json", "--only", "sysctls").document["findings"]
    return found


def codes(machine: Machine) -> list[tuple[str, str]]:
    return [(it["code"], it["subject"]) for it in findings(machine)]


@pytest.fixture
def container(machine: Machine) -> str:
    name = machine.node.container()
    machine.attach(name)
    return name


@pytest.fixture
def second_wire(machine: Machine) -> Iterator[Namespace]:
    """Somebody far away, on a wire of the host that is not where its default route leads."""
    node = machine.node
    node.inside("ip", "link", "add", "first", "type", "bridge")
    node.inside("ip", "link", "set", "first", "up")
    node.inside("ip", "route", "add", "default", "dev", "first")
    outside = node.container()
    node.inside("ip", "link", "add", "second", "type", "veth", "peer", "name", "wire", "netns", outside)
    node.inside("ip", "address", "add", "198.51.100.1/24", "dev", "second")
    node.inside("ip", "link", "set", "second", "up")
    node.inside("ip", "route", "add", "default", "via", "198.51.100.2", "table", "200")
    for words in (
        "link set lo up",
        f"address add {FAR}/32 dev lo",
        "address add 198.51.100.2/24 dev wire",
        "link set wire up",
        "route add default via 198.51.100.1",
    ):
        node.in_container(outside, "ip", *words.split())
    # It asks for its neighbour with an address of that wire, or the host would drop the question, too.
    node.in_container(outside, "sysctl", "-w", "net.ipv4.conf.all.arp_announce=2")
    with Namespace.open(f"/run/netns/{outside}") as namespace:
        yield namespace


def arrives(outside: Namespace, container: str, address: str) -> bool:
    """Whether a packet from far away gets to the container."""
    with Namespace.open(f"/run/netns/{container}") as inside, inside.entered():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with outside.entered():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.settimeout(2)
        receiver.bind((address, PORT))
        sender.bind((FAR, 0))
        sender.sendto(b"here", (address, PORT))
        try:
            return receiver.recv(16) == b"here"
        except TimeoutError:
            return False


def test_strict_filtering_that_drops_what_comes_by_another_wire_is_named(
    machine: Machine, container: str, second_wire: Namespace
) -> None:
    machine.node.inside("sysctl", "-w", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.second.rp_filter=1")
    assert not arrives(second_wire, container, "10.78.0.1")
    assert codes(machine) == [("sysctl-in-the-way", "net.ipv4.conf.second.rp_filter")]
    machine.node.inside("sysctl", "-w", "net.ipv4.conf.second.rp_filter=2")
    assert arrives(second_wire, container, "10.78.0.1")
    assert codes(machine) == []


def test_loose_filtering_that_drops_on_a_link_without_an_address_is_named(
    machine: Machine, container: str, second_wire: Namespace
) -> None:
    node = machine.node
    node.inside("ip", "address", "flush", "dev", "second")
    node.inside("ip", "address", "add", "198.51.100.1/32", "dev", "lo")
    node.inside("ip", "route", "add", "198.51.100.2", "dev", "second")
    node.inside("ip", "route", "add", "default", "via", "198.51.100.2", "dev", "second", "table", "200")
    node.inside("sysctl", "-w", "net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.second.rp_filter=2")
    assert not arrives(second_wire, container, "10.78.0.1")
    assert codes(machine) == [("sysctl-in-the-way", "net.ipv4.conf.second.rp_filter")]
    node.inside("sysctl", "-w", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.second.rp_filter=0")
    assert arrives(second_wire, container, "10.78.0.1")
    assert codes(machine) == []


@pytest.mark.usefixtures("container")
def test_strict_filtering_of_containers_links_alone_is_no_finding(machine: Machine) -> None:
    (link,) = machine.node.links()
    settings = [f"net.ipv4.conf.{it}.rp_filter=1" for it in ("all", "default", link)]
    machine.node.inside("sysctl", "-w", *settings)
    machine.attach(machine.node.container())
    assert codes(machine) == []


def test_a_containers_link_that_does_not_forward_is_named_and_mended(
    machine: Machine, container: str
) -> None:
    other = machine.attach(machine.node.container())["ips"][0]["address"].split("/")[0]
    link = next(
        it for it in machine.node.links() if it in machine.node.inside("ip", "route", "get", "10.78.0.1")
    )
    machine.node.inside("sysctl", "-w", f"net.ipv4.conf.{link}.forwarding=0")
    assert not machine.node.ping(container, other)
    assert codes(machine) == [("sysctl-forwarding", f"net.ipv4.conf.{link}.forwarding")]
    assert machine.run("doctor", "--only", "sysctls", "--fix").status == 0
    assert machine.node.ping(container, other)


@pytest.mark.usefixtures("container")
def test_a_file_that_stops_forwarding_at_boot_is_named(machine: Machine, own_etc: Path) -> None:
    directory = own_etc / "sysctl.d"
    directory.mkdir()
    (directory / "60-hardening.conf").write_text("# hardened\nnet/ipv4/ip_forward = 0\n")
    assert codes(machine) == [("sysctl-at-boot", "/etc/sysctl.d/60-hardening.conf")]
    (directory / "70-node.conf").write_text("net.ipv4.ip_forward=1\n")
    assert codes(machine) == []


def test_on_a_machine_that_is_no_node_nothing_has_to_be_forwarded(bare: Machine) -> None:
    bare.node.inside("sysctl", "-w", "net.ipv4.ip_forward=0")
    assert codes(bare) == []
