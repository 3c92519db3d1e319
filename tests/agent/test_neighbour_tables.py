"""The host's tables of neighbours, which all containers of a machine share: no container can fill them."""

from __future__ import annotations

import itertools
import json
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from netloom.kernel import Namespace
from netloom.networks.names import HOST_MAC

from ..fixtures.internet import (
    IPV4,
    IPV6,
    NODE,
    OUTSIDE,
    UDP,
    Attached,
    Internet,
    attach,
    new_internet,
    run_in,
    socket_at,
)
from ..fixtures.node import eventually
from ..fixtures.packets import NEIGHBOUR_SOLICITATION, icmp6

pytestmark = pytest.mark.kernel

# More than the kernel keeps for the whole machine, unless it is told otherwise (gc_thresh3).
MANY = 1500

_ARP, _IPV6 = 0x0806, 0x86DD
_REQUEST, _REPLY = 1, 2
_ETHERNET = struct.Struct("!6s6sH")
_ARP_PACKET = struct.Struct("!HHBBH6s4s6s4s")
_EVERYBODY = "ff:ff:ff:ff:ff:ff"
_SOLICITATION, _ADVERTISEMENT, _ROUTER_SOLICITATION, _LISTENER_REPORT = NEIGHBOUR_SOLICITATION, 136, 133, 143
_GATEWAY = "169.254.1.1"

# Other machines of the uplink's networks, which the host has never talked to.
STRANGERS = [{IPV4: f"192.0.2.{n}", IPV6: f"2001:db8::{n}"} for n in (101, 102)]


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with new_internet() as internet:
        internet.node.start("--tick", "600")
        for stranger in STRANGERS:
            run_in(internet.outside, "ip", "addr", "add", f"{stranger[IPV4]}/24", "dev", "eth0")
            run_in(internet.outside, "ip", "addr", "add", f"{stranger[IPV6]}/64", "dev", "eth0", "nodad")
        yield internet


@pytest.fixture(scope="module")
def container(internet: Internet) -> Attached:
    return attach(internet, ipMasq=True)


def mac_of(container: Attached) -> str:
    (mac,) = (it["mac"] for it in container.added.document["interfaces"] if it.get("sandbox"))
    return str(mac)


def random_mac() -> str:
    return ":".join(f"{byte:02x}" for byte in (2, *random.randbytes(5)))


def random_ipv4(_: int) -> str:
    return f"10.200.{random.randrange(256)}.{random.randrange(1, 255)}"


def random_link_local(_: int) -> str:
    return socket.inet_ntop(socket.AF_INET6, b"\xfe\x80" + bytes(6) + random.randbytes(8))


def frame(kind: int, payload: bytes, *, to: str, source: str) -> bytes:
    return _ETHERNET.pack(packed(to), packed(source), kind) + payload


def packed(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def arp(operation: int, sender: str, target: str, *, mac: str, to: str = _EVERYBODY) -> bytes:
    content = _ARP_PACKET.pack(
        1,
        0x0800,
        6,
        4,
        operation,
        packed(mac),
        socket.inet_aton(sender),
        packed(HOST_MAC),
        socket.inet_aton(target),
    )  # fmt: skip
    return frame(_ARP, content, to=to, source=mac)


def nd(kind: int, source: str, destination: str, target: str, *, mac: str) -> bytes:
    option = {_SOLICITATION: 1, _ADVERTISEMENT: 2, _ROUTER_SOLICITATION: 1}.get(kind)
    content = bytes(4) if kind != _ADVERTISEMENT else b"\x60\0\0\0"
    if kind in (_SOLICITATION, _ADVERTISEMENT):
        content += socket.inet_pton(socket.AF_INET6, target)
    if option is not None and source != "::":
        content += struct.pack("!BB6s", option, 1, packed(mac))
    group = socket.inet_pton(socket.AF_INET6, destination)
    to = "33:33:" + ":".join(f"{it:02x}" for it in group[12:]) if group[0] == 0xFF else HOST_MAC
    return frame(_IPV6, icmp6(source, destination, kind, content), to=to, source=mac)


def solicited_node(address: str) -> str:
    last = socket.inet_pton(socket.AF_INET6, address)[13:]
    return socket.inet_ntop(socket.AF_INET6, bytes.fromhex("ff0200000000000000000001ff") + last)


def arp_flood(container: Attached) -> Iterator[bytes]:
    own = container.addresses[IPV4]
    for sender in map(random_ipv4, range(MANY)):
        yield arp(_REQUEST, sender, _GATEWAY, mac=random_mac())
        yield arp(_REQUEST, sender, NODE[IPV4], mac=random_mac(), to=HOST_MAC)
        yield arp(_REQUEST, sender, OUTSIDE[IPV4], mac=random_mac())
        yield arp(_REQUEST, sender, sender, mac=random_mac())
        yield arp(_REPLY, sender, own, mac=random_mac(), to=HOST_MAC)
        yield arp(_REPLY, sender, sender, mac=random_mac())
    # And with its own address, which the host knows to be elsewhere.
    for operation, target in itertools.product((_REQUEST, _REPLY), (_GATEWAY, own, NODE[IPV4])):
        yield arp(operation, own, target, mac=random_mac())
        yield arp(operation, own, target, mac=random_mac(), to=HOST_MAC)


def nd_flood(container: Attached) -> Iterator[bytes]:
    own = container.addresses[IPV6]
    destinations = [NODE[IPV6], OUTSIDE[IPV6], "fe80::1", "2001:db8:1::2", "fd99::99"]
    for sender in map(random_link_local, range(MANY)):
        for kind in (_SOLICITATION, _ADVERTISEMENT, _ROUTER_SOLICITATION, _LISTENER_REPORT):
            to = random.choice(destinations)
            yield nd(kind, sender, to, to, mac=random_mac())
        yield nd(_SOLICITATION, sender, solicited_node("fe80::1"), "fe80::1", mac=random_mac())
        yield nd(_SOLICITATION, sender, solicited_node(NODE[IPV6]), NODE[IPV6], mac=random_mac())
        yield nd(_SOLICITATION, "::", solicited_node(sender), sender, mac=random_mac())
        yield nd(_ADVERTISEMENT, sender, "ff02::1", sender, mac=random_mac())
        yield nd(_ADVERTISEMENT, own, "ff02::1", sender, mac=random_mac())
        yield nd(_SOLICITATION, own, solicited_node(sender), sender, mac=random_mac())
    for kind, to in itertools.product((_SOLICITATION, _ADVERTISEMENT), (*destinations, "ff02::1")):
        yield nd(kind, own, to, own, mac=random_mac())


FLOODS = {IPV4: arp_flood, IPV6: nd_flood}
FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])


def neighbours(container: Attached) -> list[dict[str, Any]]:
    """Of the host's end, without those of groups, which the kernel knows by itself."""
    node = container.internet.node
    found: list[dict[str, Any]] = json.loads(
        node.inside("ip", "-j", "neigh", "show", "dev", node.link_of(container.name))
    )
    return sorted(found, key=lambda it: str(it["dst"]))


def wire(container: Attached) -> socket.socket:
    with container.place.entered():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("eth0", 0))
    return raw


def is_reached(place: Namespace, address: str) -> bool:
    """Whether it answers; others may fill the machine's one table of neighbours for a moment."""

    def answers() -> bool:
        return "1 received" in run_in(place, "ping", "-n", "-c", "1", "-W", "1", address, check=False)

    return eventually(answers)


@FAMILIES
def test_a_container_cannot_fill_the_hosts_table_of_neighbours(container: Attached, family: str) -> None:
    """With any frame that asks for or tells of a neighbour; and all others are reached meanwhile."""
    internet = container.internet
    # As a daemon of the host does that gives every link an address. The kernel answers for it then.
    internet.node.inside(
        "ip", "addr", "replace", "fe80::1/64", "dev", internet.node.link_of(container.name), "nodad"
    )
    before = neighbours(container)
    flood = list(FLOODS[family](container))
    with wire(container) as raw:
        for part, stranger in zip((flood[::2], flood[1::2]), STRANGERS, strict=True):
            for it in part:
                raw.send(it)
            # What was sent before it is through.
            assert is_reached(container.place, NODE[family])
            assert neighbours(container) == before
            assert is_reached(internet.host, stranger[family])
    assert {it["dst"] for it in before} == set(container.addresses.values())
    assert [it["state"] for it in before] == [["PERMANENT"]] * 2


def test_a_container_with_another_mac_still_reaches_others(container: Attached) -> None:
    """A plugin behind ours may give it one. Until the agent sees that, the host answers for the next hop."""
    internet = container.internet
    before = neighbours(container)
    with (
        socket_at(internet.outside, UDP, IPV4) as listening,
        socket_at(container.place, UDP, IPV4) as sending,
    ):
        listening.bind((OUTSIDE[IPV4], 0))
        run_in(container.place, "ip", "link", "set", "eth0", "address", random_mac())
        assert "169.254.1.1" not in run_in(container.place, "ip", "neigh")
        sending.sendto(b"out", listening.getsockname())
        assert listening.recv(100) == b"out"
    assert neighbours(container) == before
