"""Objects do to packets what they say: a few that cannot be told from listings alone."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from netloom.kernel import (
    Address,
    Ingress,
    Namespace,
    Neighbour,
    NftElement,
    NftTable,
    Object,
    Plan,
    Redirect,
    Route,
    Rule,
    Scope,
    Shaper,
    Sysctl,
    Up,
    Veth,
    apply,
    remove,
)

pytestmark = pytest.mark.kernel

GATEWAY, GATEWAY6 = "169.254.1.1", "fe80::1"
MACS = {1: "02:00:00:00:01:01", 2: "02:00:00:00:02:01"}
POD_MACS = {1: "02:00:00:00:01:02", 2: "02:00:00:00:02:02"}
FORWARDING = (
    Sysctl("net/ipv4/ip_forward", "1"),
    Sysctl("net/ipv6/conf/all/forwarding", "1"),
)


def attachment(number: int) -> Plan:
    """A pod behind a routed veth, with no address on the host and no broadcast to find anybody."""
    host, mac, pod_mac = f"nl{number}", MACS[number], POD_MACS[number]
    address, address6 = f"10.0.0.{number}", f"fd00::{number}"
    return Plan(
        (
            Veth(host, "eth0", mac=mac, peer_mac=pod_mac),
            Up("lo", on="attachment", stay=True),
            Up(host),
            Up("eth0", on="attachment"),
            Address("eth0", f"{address}/32", on="attachment"),
            Address("eth0", f"{address6}/128", on="attachment"),
            Neighbour("eth0", GATEWAY, mac, on="attachment"),
            Neighbour("eth0", GATEWAY6, mac, on="attachment"),
            Route("0.0.0.0/0", link="eth0", via=GATEWAY, onlink=True, on="attachment"),
            Route("::/0", link="eth0", via=GATEWAY6, on="attachment"),
            Neighbour(host, address, pod_mac),
            Neighbour(host, address6, pod_mac),
            Route(f"{address}/32", link=host),
            Route(f"{address6}/128", link=host),
        )
    )


class Node:
    """A host with two pods that reach each other by its routes."""

    def __init__(self, host: Namespace, pods: tuple[Namespace, Namespace]) -> None:
        self.host = host
        self.pods = pods
        self.set(*FORWARDING)
        for number, pod in enumerate(pods, 1):
            apply(attachment(number), Scope(host, pod))

    def set(self, *objects: Object) -> None:
        apply(Plan(objects), Scope(self.host))  # type: ignore[arg-type]

    def unset(self, *objects: Object) -> None:
        remove(Plan(objects), Scope(self.host))  # type: ignore[arg-type]

    def reaches(self, address: str) -> bool:
        """From the first pod."""
        with self.pods[0].entered():
            command = ["ping", "-c", "1", "-W", "0.3", "-n", address]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def node() -> Iterator[Node]:
    with Namespace.new() as host, Namespace.new() as one, Namespace.new() as other:
        yield Node(host, (one, other))


def wait_until_reached(node: Node, address: str) -> None:
    deadline = time.monotonic() + 10
    while not node.reaches(address):
        assert time.monotonic() < deadline, f"{address} is not reached"


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_pods_reach_each_other_by_routes_and_neighbours_alone(node: Node, address: str) -> None:
    wait_until_reached(node, address)


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_a_pod_whose_route_is_removed_is_not_reached(node: Node, address: str) -> None:
    wait_until_reached(node, address)
    node.unset(Route(f"{address}/{'128' if ':' in address else '32'}", link="nl2"))
    assert not node.reaches(address)


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_a_neighbour_with_the_mac_of_nobody_is_not_reached(node: Node, address: str) -> None:
    wait_until_reached(node, address)
    node.unset(Neighbour("nl2", address, POD_MACS[2]))
    node.set(Neighbour("nl2", address, "02:00:00:00:99:99"))
    assert not node.reaches(address)


def test_a_rule_sends_packets_to_its_table(node: Node) -> None:
    wait_until_reached(node, "10.0.0.2")
    node.set(Route("10.0.0.2/32", kind="blackhole", table=100), Rule(100, "ipv4", table=100, iif="nl1"))
    assert not node.reaches("10.0.0.2")
    node.unset(Rule(100, "ipv4", table=100, iif="nl1"))
    wait_until_reached(node, "10.0.0.2")


BODY = """
map verdicts { type ifname : verdict; }
chain forward { type filter hook forward priority 0; policy accept; iifname vmap @verdicts; }
"""


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_an_element_with_a_verdict_drops_what_its_link_sends(node: Node, address: str) -> None:
    dropped = NftElement("inet", "netloom", "verdicts", ("nl1",), verdict="drop")
    node.set(NftTable("inet", "netloom", BODY))
    wait_until_reached(node, address)
    node.set(dropped)
    assert not node.reaches(address)
    node.unset(dropped)
    wait_until_reached(node, address)


def test_an_element_with_a_verdict_leaves_other_links_alone(node: Node) -> None:
    node.set(
        NftTable("inet", "netloom", BODY),
        NftElement("inet", "netloom", "verdicts", ("nl9",), verdict="drop"),
        NftElement("inet", "netloom", "verdicts", ("nl1",), verdict="accept"),
    )
    wait_until_reached(node, "10.0.0.2")


def packet_socket(namespace: Namespace, link: str) -> socket.socket:
    with namespace.entered():
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    made.bind((link, 0x88B5))
    made.settimeout(10)
    return made


def frame(size: int = 60) -> bytes:
    return bytes.fromhex("02000000020202000000010288b5") + b"netloom".ljust(size - 14, b"\0")


@pytest.mark.parametrize("there", [("nl1", "nl2"), ("nl2", "nl1")], ids=["there", "back"])
def test_a_pair_of_redirects_passes_frames_between_two_links(node: Node, there: tuple[str, str]) -> None:
    node.set(Ingress("nl1"), Ingress("nl2"), Redirect("nl1", "nl2"), Redirect("nl2", "nl1"))
    sender, receiver = (node.pods[int(link[-1]) - 1] for link in there)
    with packet_socket(sender, "eth0") as source, packet_socket(receiver, "eth0") as target:
        source.send(frame())
        assert target.recv(2000) == frame()


def test_without_a_redirect_no_frame_passes(node: Node) -> None:
    with packet_socket(node.pods[0], "eth0") as source, packet_socket(node.pods[1], "eth0") as target:
        target.settimeout(0.2)
        source.send(frame())
        with pytest.raises(TimeoutError):
            target.recv(2000)


def seconds_for(source: socket.socket, target: socket.socket, frames: int) -> float:
    started = time.monotonic()
    for _ in range(frames):
        source.send(frame(1000))
    for _ in range(frames):
        target.recv(2000)
    return time.monotonic() - started


# 2 kB may come at once, so 20 kB take some 0.36 s.
SLOW = Shaper("nl2", rate=50_000, burst=2_000, limit=100_000)


def test_a_shaper_makes_packets_wait(node: Node) -> None:
    node.set(Ingress("nl1"), Redirect("nl1", "nl2"), SLOW)
    with packet_socket(node.pods[0], "eth0") as source, packet_socket(node.pods[1], "eth0") as target:
        taken = seconds_for(source, target, 20)
    assert 0.25 < taken < 10


def test_a_shaper_that_is_removed_makes_nobody_wait(node: Node) -> None:
    node.set(Ingress("nl1"), Redirect("nl1", "nl2"), SLOW)
    node.unset(SLOW)
    with packet_socket(node.pods[0], "eth0") as source, packet_socket(node.pods[1], "eth0") as target:
        assert min(seconds_for(source, target, 20) for _ in range(5)) < 0.2


@pytest.mark.parametrize("address", ["10.0.0.2", "10.0.0.9"])
def test_an_answer_is_given_for_a_proxied_neighbour_and_no_other(node: Node, address: str) -> None:
    """The first pod asks who has an address of its network; the host answers for .9 only."""
    node.set(Neighbour("nl1", "10.0.0.9"), Route("10.0.0.9/32", link="nl2"))
    asked = bytes.fromhex("ffffffffffff02000000010208060001080006040001020000000102")
    asked += socket.inet_aton("10.0.0.1") + bytes(6) + socket.inet_aton(address)
    with node.pods[0].entered():
        asker = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    with asker:
        asker.bind(("eth0", 0x0806))
        asker.settimeout(10 if address.endswith("9") else 0.3)
        asker.send(asked)
        if address.endswith("9"):
            assert asker.recv(100)[22:28].hex(":") == MACS[1]
        else:
            with pytest.raises(TimeoutError):
                asker.recv(100)
