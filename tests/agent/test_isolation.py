"""Isolation: who may begin to talk to whom on this host, and who is not concerned."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from netloom.kernel import Namespace
from netloom.networks.names import HOST_MAC

from ..fixtures.node import Node, eventually
from ..fixtures.packets import router_advertisement, send_raw, socket_in, udp4, udp6

pytestmark = pytest.mark.kernel

# In a network of its own, or where `POOLS` is the same, in one that shares it.
OTHER_POOLS = [{"cidr": "10.8.0.0/16"}, {"cidr": "fd08::/64"}]
PATIENCE = 10.0
# That nothing comes is seen when nothing has come for so long.
SILENCE = 0.4


class Place(NamedTuple):
    """A container, the host, or a machine outside; with an address of each family."""

    namespace: Namespace
    addresses: list[str]
    container: str = ""
    mac: str = ""

    def command(self, *words: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.namespace.fileno()}", *words]

    def socket(self, address: str, kind: socket.SocketKind) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.namespace.entered():
            made = socket.socket(family, kind)
        made.setblocking(False)
        return made


class Internet:
    """A host with containers on it, and somebody outside."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._stack = ExitStack()
        node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
        node.inside("ip", "address", "add", "fd99::1/128", "dev", "lo")
        self.host = Place(node.namespace, ["192.0.2.1", "fd99::1"])
        self.outside = self._outside()
        for place in (self.host, self.outside):
            assert eventually(lambda it=place: has_address(it)), place  # type: ignore[misc]

    def _outside(self) -> Place:
        name = self.node.container()
        node, path = self.node, f"/run/netns/{name}"
        node.inside("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1", "netns", path)
        node.inside("ip", "address", "add", "198.51.100.1/24", "dev", "up0")
        node.inside("ip", "address", "add", "fd98::1/64", "dev", "up0", "nodad")
        node.inside("ip", "link", "set", "up0", "up")
        for words in (
            ["address", "add", "198.51.100.2/24", "dev", "up1"],
            ["address", "add", "fd98::2/64", "dev", "up1", "nodad"],
            ["link", "set", "up1", "up"],
            ["route", "add", "default", "via", "198.51.100.1"],
            ["-6", "route", "add", "default", "via", "fd98::1"],
        ):
            node.in_container(name, "ip", *words)
        return Place(self._open(name), ["198.51.100.2", "fd98::2"])

    def _open(self, name: str) -> Namespace:
        return self._stack.enter_context(Namespace.open(f"/run/netns/{name}"))

    def container(self, network: str, **keys: Any) -> Place:
        name = self.node.container()
        added = self.node.add(name, self.node.config(network, **keys))
        return Place(self._open(name), added.addresses, name, added.document["interfaces"][1]["mac"])

    def close(self) -> None:
        self.node.inside("ip", "link", "del", "up0")
        for address in ("192.0.2.1/32", "fd99::1/128"):
            self.node.inside("ip", "address", "del", address, "dev", "lo")
        self._stack.close()


def has_address(place: Place) -> bool:
    """Whether its IPv6 address can be used: the kernel makes the route to it some time later."""
    command = place.command("ip", "-6", "route", "show", "table", "local")
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return f"local {place.addresses[1]} " in listed


@pytest.fixture
def internet(shared: Node) -> Iterator[Internet]:
    made = Internet(shared)
    yield made
    made.close()


# By ping, TCP and UDP, in both families.


EVERYTHING = {f"{kind} by IPv{family}" for kind in ("ping", "TCP", "UDP") for family in (4, 6)}
NOTHING: set[str] = set()


def reached(sender: Place, receiver: Place, patience: float = PATIENCE) -> set[str]:
    """How the receiver can be reached, by all ways at once; it answers. Waits for those that fail."""
    deadline = time.monotonic() + patience
    with ExitStack() as stack:
        pings = {}
        attempts = {}
        for family, address in zip((4, 6), receiver.addresses, strict=True):
            command = sender.command("ping", "-n", "-q", "-i", "0.1", "-c", "1", "-w", "10", address)
            ping = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            stack.callback(ping.kill)
            pings[f"ping by IPv{family}"] = ping
            attempts[f"TCP by IPv{family}"] = stack.enter_context(_Tcp(sender, receiver, address))
            attempts[f"UDP by IPv{family}"] = stack.enter_context(_Udp(sender, receiver, address))
        found: set[str] = set()
        while len(found) < len(EVERYTHING) and time.monotonic() < deadline:
            found |= {way for way, ping in pings.items() if ping.poll() == 0}
            found |= {way for way, attempt in attempts.items() if attempt.succeeds()}
            time.sleep(0.01)
        return found


def is_silent(sender: Place, receiver: Place) -> bool:
    return reached(sender, receiver, SILENCE) == NOTHING


class _Attempt:
    kind: socket.SocketKind

    def __init__(self, sender: Place, receiver: Place, address: str) -> None:
        self.listening = receiver.socket(address, self.kind)
        self.asking = sender.socket(address, self.kind)
        self.listening.bind((address, 0))
        self.target = self.listening.getsockname()[:2]
        self.begin()

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.close()
        self.asking.close()

    def begin(self) -> None: ...

    def succeeds(self) -> bool:
        raise NotImplementedError


class _Tcp(_Attempt):
    kind = socket.SOCK_STREAM

    def begin(self) -> None:
        self.listening.listen()
        with contextlib.suppress(BlockingIOError):
            self.asking.connect(self.target)

    def succeeds(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.asking, selectors.EVENT_WRITE)
            return (
                bool(selector.select(0)) and self.asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            )


class _Udp(_Attempt):
    kind = socket.SOCK_DGRAM

    def begin(self) -> None:
        self.asking.connect(self.target)

    def succeeds(self) -> bool:
        # As one does by UDP, it asks again and again.
        with contextlib.suppress(BlockingIOError):
            self.asking.send(b"ask")
        with contextlib.suppress(BlockingIOError):
            _, asker = self.listening.recvfrom(100)
            self.listening.sendto(b"answer", asker)
        with contextlib.suppress(BlockingIOError):
            return self.asking.recv(100) == b"answer"
        return False


# Two containers.


@pytest.mark.parametrize("isolation", ["none", "networks"])
def test_containers_of_one_network_talk(internet: Internet, isolation: str) -> None:
    one, other = (internet.container("net", isolation=isolation) for _ in range(2))
    assert reached(one, other) == EVERYTHING


def test_containers_that_are_kept_apart_do_not_talk(internet: Internet) -> None:
    one, other = (internet.container("net", isolation="containers") for _ in range(2))
    assert is_silent(one, other)
    assert is_silent(other, one)


def test_networks_talk_unless_they_are_kept_apart(internet: Internet) -> None:
    assert reached(internet.container("net"), internet.container("other", pools=OTHER_POOLS)) == EVERYTHING


@pytest.mark.parametrize("isolation", ["networks", "containers"])
def test_an_isolated_network_and_another_one_do_not_talk(internet: Internet, isolation: str) -> None:
    isolated = internet.container("net", isolation=isolation)
    other = internet.container("other", pools=OTHER_POOLS)
    assert is_silent(isolated, other)
    assert is_silent(other, isolated)


@pytest.mark.parametrize("pools", [OTHER_POOLS, None], ids=["with pools of their own", "with one pool"])
def test_two_isolated_networks_do_not_talk(internet: Internet, pools: list[dict[str, str]] | None) -> None:
    keys = {} if pools is None else {"pools": pools}
    one = internet.container("net", isolation="networks")
    other = internet.container("other", isolation="networks", **keys)
    assert is_silent(one, other)
    assert is_silent(other, one)


def test_of_networks_that_are_kept_apart_each_still_talks_to_itself(internet: Internet) -> None:
    one, same = (internet.container("net", isolation="networks") for _ in range(2))
    internet.container("other", isolation="networks")
    assert reached(one, same) == EVERYTHING


def test_a_connection_that_was_there_before_goes_on(internet: Internet) -> None:
    """What answers is let through: here to a container that has since become one that is kept apart."""
    one, other = internet.container("net"), internet.container("other")
    address = other.addresses[0]
    with socket_in("", socket.AF_INET, socket.SOCK_STREAM, namespace=other.namespace) as listening:
        listening.bind((address, 0))
        listening.listen()
        with socket_in("", socket.AF_INET, socket.SOCK_STREAM, namespace=one.namespace) as asking:
            asking.connect(listening.getsockname())
            answering, _ = listening.accept()
            link = internet.node.link_of(other.container)
            internet.node.inside("nft", f"add element inet netloom apart {{ {link} : drop }}")
            with answering:
                asking.send(b"ask")
                assert answering.recv(100) == b"ask"
                answering.send(b"answer")
                assert asking.recv(100) == b"answer"
            # The agent may have seen by now that nobody has it.
            internet.node.inside("nft", f"delete element inet netloom apart {{ {link} }}", check=False)


# Who is not concerned.


@pytest.mark.parametrize("isolation", ["networks", "containers"])
def test_the_host_is_not_concerned(internet: Internet, isolation: str) -> None:
    isolated = internet.container("net", isolation=isolation)
    assert reached(internet.host, isolated) == EVERYTHING
    assert reached(isolated, internet.host) == EVERYTHING


@pytest.mark.parametrize("isolation", ["networks", "containers"])
def test_whoever_is_outside_is_not_concerned(internet: Internet, isolation: str) -> None:
    isolated = internet.container("net", isolation=isolation)
    assert reached(internet.outside, isolated) == EVERYTHING
    assert reached(isolated, internet.outside) == EVERYTHING


@pytest.mark.parametrize("isolation", ["networks", "containers"])
def test_a_host_port_is_published_to_those_who_are_kept_apart(internet: Internet, isolation: str) -> None:
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
    server = internet.container("net", isolation=isolation, runtimeConfig={"portMappings": ports})
    client = internet.container("other", isolation=isolation)
    for address, at in zip(server.addresses, internet.host.addresses, strict=True):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket_in("", family, socket.SOCK_STREAM, namespace=server.namespace) as listening:
            listening.bind((address, 80))
            listening.listen()
            with socket_in("", family, socket.SOCK_STREAM, namespace=client.namespace) as asking:
                asking.connect((at, 8080))
    assert is_silent(client, server)


# What is left.


def apart(node: Node) -> list[str]:
    """All that the table has of isolation."""
    listed = node.inside("nft", "list", "map", "inet", "netloom", "apart").splitlines()
    chains = node.inside("nft", "list", "chains", "inet").splitlines()
    return [it for it in listed if "loom" in it and "table" not in it] + [
        it for it in chains if "apart-" in it
    ]


@pytest.mark.parametrize("isolation", ["networks", "containers"])
def test_nothing_is_left_after_del(internet: Internet, isolation: str) -> None:
    places = [internet.container("net", isolation=isolation) for _ in range(2)]
    assert apart(internet.node) != []
    for place in places:
        internet.node.delete(place.container)
    assert eventually(lambda: apart(internet.node) == []), apart(internet.node)
    assert internet.node.audit() == []


def test_a_container_that_takes_a_link_that_was_isolated_is_not(internet: Internet) -> None:
    """The same container comes back, with the same link, on a network that has become an open one."""
    isolated, other = internet.container("net", isolation="containers"), internet.container("net")
    internet.node.delete(isolated.container)
    again = internet.node.add(isolated.container)
    assert reached(Place(isolated.namespace, again.addresses), other) == EVERYTHING


def test_who_is_kept_apart_stays_so_when_the_table_was_flushed(internet: Internet) -> None:
    one, other = internet.container("net", isolation="networks"), internet.container("other")
    internet.node.inside("nft", "flush", "ruleset")
    assert eventually(lambda: internet.node.audit() == [])
    assert is_silent(one, other)
    assert is_silent(other, one)


# What guards every link, with all that a network may have.


ALL_KEYS: dict[str, Any] = {
    "ipMasq": {"except": ["192.168.0.0/16"]},
    "isolation": "networks",
    "bandwidth": {"ingressRate": 100_000_000, "egressRate": 100_000_000},
    "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net.ipv6.conf.IFNAME.accept_ra": "2"},
    "txQLen": 500,
}
IPV4, IPV6 = 0x0800, 0x86DD
PORT = 5555
ROUTER = "fe80::bad"


class Guarded(NamedTuple):
    """A container that sends what it should not, and one that listens."""

    node: Node
    sender: Place
    listener: Place

    def send(self, kind: int, packet: bytes, to: str = HOST_MAC) -> None:
        send_raw(self.sender.container, "eth0", kind, packet, to=to, source=self.sender.mac)


@pytest.fixture
def guarded(internet: Internet) -> Guarded:
    ports = {"portMappings": [{"hostPort": PORT, "containerPort": PORT, "protocol": "udp"}]}
    sender = internet.container("net", **ALL_KEYS, runtimeConfig=ports)
    return Guarded(internet.node, sender, internet.container("net", **ALL_KEYS))


@pytest.mark.parametrize(
    ("family", "forged"),
    [(4, ["10.9.7.7", "192.0.2.1", "169.254.1.1"]), (6, ["fd09::7777", "fd99::1", "::1"])],
)
def test_with_all_keys_a_container_sends_from_its_own_addresses_only(
    guarded: Guarded, family: int, forged: list[str]
) -> None:
    own, target = (it.addresses[family == 6] for it in (guarded.sender, guarded.listener))
    kind, packet = (IPV4, udp4) if family == 4 else (IPV6, udp6)
    version = socket.AF_INET if family == 4 else socket.AF_INET6
    with socket_in(guarded.listener.container, version, socket.SOCK_DGRAM) as listening:
        listening.bind((target, PORT))
        for source in (*forged, target, own):
            content = b"honest" if source == own else b"forged"
            guarded.send(kind, packet(source, target, PORT, content))
        assert listening.recv(100) == b"honest"


def test_with_all_keys_a_container_is_no_router(guarded: Guarded) -> None:
    frame = router_advertisement(ROUTER, "2001:db8:bad::")
    for name in guarded.node.links():
        guarded.node.inside("sysctl", "-w", f"net.ipv6.conf.{name}.accept_ra=2")
    for _ in range(10):
        guarded.send(IPV6, frame, to="33:33:00:00:00:01")
        time.sleep(0.02)
    assert guarded.node.inside("ip", "-6", "route", "show", "proto", "ra") == ""
