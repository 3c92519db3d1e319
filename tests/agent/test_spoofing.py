"""A container sends with its own addresses and no others, and makes nobody's routes."""

from __future__ import annotations

import signal
import socket
import sys
import time
from typing import NamedTuple

import pytest

from netloom.networks.names import HOST_MAC

from ..fixtures.node import Node, eventually, is_stopped
from ..fixtures.packets import router_advertisement, send_raw, socket_in, udp4, udp6

pytestmark = pytest.mark.kernel

IPV4, IPV6 = 0x0800, 0x86DD
PORT = 5555
ROUTER = "fe80::bad"


class Pair(NamedTuple):
    """Two attached containers: one that sends, one that listens."""

    node: Node
    sender: str
    mac: str
    own: list[str]
    listener: str
    target: list[str]

    def send(self, source: str, content: bytes) -> None:
        """One datagram to the listener, past the sender's own IP stack, from any source."""
        if ":" in source:
            kind, packet = IPV6, udp6(source, self.target[1], PORT, content)
        else:
            kind, packet = IPV4, udp4(source, self.target[0], PORT, content)
        send_raw(self.sender, "eth0", kind, packet, to=HOST_MAC, source=self.mac)


@pytest.fixture
def pair(running: Node) -> Pair:
    sender, listener = running.container(), running.container()
    added = running.add(sender)
    mac = added.document["interfaces"][1]["mac"]
    return Pair(running, sender, mac, added.addresses, listener, running.add(listener).addresses)


def first_to_arrive(pair: Pair, family: int, forged: list[str], own: str) -> bytes:
    """What the listener hears first, if forged packets are sent before an honest one."""
    with socket_in(pair.listener, family, socket.SOCK_DGRAM) as listening:
        listening.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", PORT))
        for source in forged:
            pair.send(source, b"forged")
        pair.send(own, b"honest")
        return listening.recv(100)


def test_ipv4_with_the_address_of_another_does_not_arrive(pair: Pair) -> None:
    forged = ["10.9.7.7", "192.0.2.1", "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "169.254.1.1"]
    assert first_to_arrive(pair, socket.AF_INET, [*forged, pair.target[0]], pair.own[0]) == b"honest"


def test_ipv6_with_the_address_of_another_does_not_arrive(pair: Pair) -> None:
    forged = ["fd09::7777", "2001:db8::1", "::1", "::", "fe80::1", "ff02::1", "::ffff:10.9.0.1"]
    assert first_to_arrive(pair, socket.AF_INET6, [*forged, pair.target[1]], pair.own[1]) == b"honest"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_without_the_table_forged_packets_do_arrive(pair: Pair, family: int) -> None:
    """Or the tests above would prove nothing."""
    pair.node.kill()
    pair.node.inside("nft", "flush", "ruleset")
    forged, own = ("10.9.7.7", pair.own[0]) if family == socket.AF_INET else ("fd09::7777", pair.own[1])
    assert first_to_arrive(pair, family, [forged], own) == b"forged"


def test_an_address_that_a_container_gives_itself_does_not_work(pair: Pair) -> None:
    pair.node.in_container(pair.sender, "ip", "addr", "add", "10.9.7.7/32", "dev", "eth0")
    ping = ["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "-I", "10.9.7.7", pair.target[0]]
    assert pair.node.in_container(pair.sender, *ping, check=False).returncode != 0
    assert pair.node.ping(pair.sender, pair.target[0])


def test_another_mac_does_not_matter_but_the_address_does(pair: Pair) -> None:
    forged = pair._replace(mac="02:aa:bb:cc:dd:ee")
    assert first_to_arrive(forged, socket.AF_INET, [pair.target[0]], pair.own[0]) == b"honest"


def test_an_address_cannot_be_sent_from_another_container_after_del(pair: Pair) -> None:
    third = pair.node.container()
    freed = pair.node.add(third).addresses[0]
    pair.node.delete(third)
    assert first_to_arrive(pair, socket.AF_INET, [freed], pair.own[0]) == b"honest"


def test_between_link_up_and_answer_forged_packets_are_dropped(node: Node) -> None:
    """The agent stops when the container has all and the runtime has no answer yet."""
    node.start("--tick", "600")
    listener = node.container()
    target = node.add(listener).addresses
    node.kill()
    agent = node.start("--tick", "600", environment={"NETLOOM_FAILPOINT": "add.applied:stop"})
    sender = node.container()
    process = node.begin("ADD", sender)
    assert eventually(lambda: is_stopped(agent))
    assert "eth0" in node.in_container(sender, "ip", "route").stdout
    mac = node.in_container(sender, "cat", "/sys/class/net/eth0/address").stdout.strip()
    pair = Pair(node, sender, mac, [], listener, target)
    own = node.in_container(sender, "ip", "-4", "-o", "addr", "show", "dev", "eth0").stdout.split()[3]
    assert first_to_arrive(pair, socket.AF_INET, ["10.9.7.7", target[0]], own.split("/")[0]) == b"honest"
    agent.send_signal(signal.SIGCONT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_forged_packets_are_dropped_while_no_agent_runs(pair: Pair) -> None:
    pair.node.kill()
    assert first_to_arrive(pair, socket.AF_INET, ["10.9.7.7", pair.target[0]], pair.own[0]) == b"honest"


# Router advertisements.


def learned(node: Node) -> str:
    return node.inside("ip", "-6", "route", "show", "proto", "ra")


def test_a_router_advertisement_reaches_a_host_that_listens(pair: Pair) -> None:
    """Or the next test would prove nothing."""
    node = pair.node
    path = f"/run/netns/{pair.sender}"
    node.inside("ip", "link", "add", "plain0", "type", "veth", "peer", "name", "plain1", "netns", path)
    node.inside("sysctl", "-w", "net.ipv6.conf.plain0.accept_ra=2")
    node.inside("ip", "link", "set", "plain0", "up")
    node.in_container(pair.sender, "ip", "link", "set", "plain1", "up")

    def arrives() -> bool:
        packet = router_advertisement(ROUTER, "2001:db8:bad::")
        send_raw(pair.sender, "plain1", IPV6, packet, to="33:33:00:00:00:01", source="02:00:00:00:00:09")
        return ROUTER in learned(node)

    assert eventually(arrives)


def test_a_router_advertisement_of_a_container_never_reaches_the_hosts_routes(pair: Pair) -> None:
    node = pair.node
    for _ in range(10):
        packet = router_advertisement(ROUTER, "2001:db8:bad::")
        send_raw(pair.sender, "eth0", IPV6, packet, to="33:33:00:00:00:01", source=pair.mac)
        time.sleep(0.02)
    assert learned(node) == ""
    assert "2001:db8:bad:" not in node.inside("ip", "-6", "addr")


def test_a_router_advertisement_is_refused_twice(pair: Pair) -> None:
    """By the link's own setting, and by the table: either alone would do."""
    node = pair.node
    link = node.links()[0]
    assert node.inside("sysctl", "-n", f"net.ipv6.conf.{link}.accept_ra").strip() == "0"
    for name in node.links():
        node.inside("sysctl", "-w", f"net.ipv6.conf.{name}.accept_ra=2")
    packet = router_advertisement(ROUTER, "2001:db8:bad::")
    send_raw(pair.sender, "eth0", IPV6, packet, to="33:33:00:00:00:01", source=pair.mac)
    assert not eventually(lambda: ROUTER in learned(node), patience=0.3)


def advertise_from_host(pair: Pair) -> None:
    """As a program of the host does that takes the listener's link for one to be a router on."""
    link = pair.node.link_of(pair.listener)
    pair.node.inside("ip", "addr", "replace", f"{ROUTER}/64", "dev", link, "nodad")
    packet = router_advertisement(ROUTER, "2001:db8:bad::").hex()
    send = (
        "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW); "
        f"s.sendto(bytes.fromhex('{packet}'), ('ff02::1', 0, 0, socket.if_nametoindex('{link}')))"
    )
    assert pair.node.inside(sys.executable, "-c", send, check=False) == ""


def learned_by_listener(pair: Pair) -> str:
    return pair.node.in_container(pair.listener, "ip", "-6", "route", "show", "proto", "ra").stdout


def test_containers_get_no_router_advertisements(pair: Pair) -> None:
    advertise_from_host(pair)
    assert not eventually(lambda: ROUTER in learned_by_listener(pair), patience=0.5)
    # Without the chain they would, or this would prove nothing. Nobody is there to mend it meanwhile.
    pair.node.kill()
    pair.node.inside("nft", "flush", "chain", "inet", "netloom", "routers")
    advertise_from_host(pair)
    assert eventually(lambda: ROUTER in learned_by_listener(pair))


def test_loopback_addresses_of_the_host_are_out_of_reach(pair: Pair) -> None:
    """127.0.0.1 on the wire is dropped by the kernel, unless somebody sets route_localnet."""
    for name in pair.node.links():
        assert pair.node.inside("sysctl", "-n", f"net.ipv4.conf.{name}.route_localnet").strip() == "0"
