from __future__ import annotations

import errno
import os
import socket
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator

import pytest

from netloom.kernel.errors import Refused
from netloom.kernel.namespace import Namespace
from netloom.kernel.netlink import address, link, route
from netloom.kernel.netlink import wireguard as generic
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE
from netloom.kernel.netlink.route import RouteHop
from netloom.kernel.netlink.wireguard import (
    NO_KEY,
    Allowed,
    Device,
    Peer,
    PeerChange,
    configure,
    put_peer,
    read_device,
    remove_peer,
)

pytestmark = pytest.mark.fullkernel

NETWORK = Allowed(socket.AF_INET, socket.inet_aton("10.1.0.0"), 16)
NETWORK6 = Allowed(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, "fd01::"), 48)


class Wireguard:
    """A device in a namespace of its own, with what the `wg` tool says of it."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        created = link.create("wireguard", link.properties(name="wg0"))
        namespace.route.change(link.NEW, CREATE | EXCLUSIVE, created)
        self.index = namespace.route.index("wg0")

    @property
    def device(self) -> Device:
        return read_device(self.namespace.generic, self.index)

    @property
    def peers(self) -> tuple[Peer, ...]:
        return self.device.peers

    def set(
        self,
        *peers: PeerChange,
        private_key: bytes | None = None,
        listen_port: int | None = None,
        fwmark: int | None = None,
        replace_peers: bool = False,
    ) -> None:
        configure(
            self.namespace.generic,
            self.index,
            private_key=private_key,
            listen_port=listen_port,
            fwmark=fwmark,
            peers=peers,
            replace_peers=replace_peers,
        )

    def shown(self) -> list[list[str]]:
        """The lines of `wg show wg0 dump`: the device, then its peers."""
        with self.namespace.entered():
            done = subprocess.run(
                ["wg", "show", "wg0", "dump"], check=True, capture_output=True, text=True, timeout=60
            )
        return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture
def new_wireguard() -> Iterator[Callable[[], Wireguard]]:
    made: list[Namespace] = []

    def make() -> Wireguard:
        made.append(Namespace.new())
        return Wireguard(made[-1])

    yield make
    for namespace in made:
        namespace.close()


@pytest.fixture
def wg(new_wireguard: Callable[[], Wireguard]) -> Wireguard:
    return new_wireguard()


def private() -> bytes:
    return b64decode(subprocess.run(["wg", "genkey"], check=True, capture_output=True).stdout)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_a_new_device_has_nothing(wg: Wireguard) -> None:
    assert wg.device == Device(
        index=wg.index, name="wg0", private_key=None, public_key=None, listen_port=0, fwmark=0, peers=()
    )


def test_a_device_is_as_it_was_set(wg: Wireguard) -> None:
    own = private()
    wg.set(private_key=own, listen_port=51820, fwmark=0x77)
    found = wg.device
    assert (found.private_key, found.listen_port, found.fwmark) == (own, 51820, 0x77)


def test_the_tool_says_the_same_of_the_device(wg: Wireguard) -> None:
    wg.set(private_key=private(), listen_port=51820, fwmark=0x77)
    found = wg.device
    assert found.private_key is not None
    assert found.public_key is not None
    (shown,) = wg.shown()
    assert [b64decode(shown[0]), b64decode(shown[1])] == [found.private_key, found.public_key]
    assert shown[2:] == ["51820", "0x77"]


def test_what_is_not_named_stays_as_it_is(wg: Wireguard) -> None:
    own = private()
    wg.set(put_peer(Peer(public_key=key(1))), private_key=own, listen_port=51820, fwmark=5)
    wg.set(fwmark=6)
    found = wg.device
    assert (found.private_key, found.listen_port, found.fwmark) == (own, 51820, 6)
    assert len(found.peers) == 1


def test_a_private_key_can_be_taken_away(wg: Wireguard) -> None:
    wg.set(private_key=private())
    wg.set(private_key=NO_KEY)
    assert wg.device.private_key is None


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "fe80::1%1"])
def test_a_peer_is_as_it_was_set(wg: Wireguard, host: str) -> None:
    wanted = Peer(
        public_key=key(1),
        preshared_key=key(2),
        endpoint=(host, 51820),
        keepalive=25,
        allowed=(NETWORK, NETWORK6),
    )
    wg.set(put_peer(wanted))
    assert wg.peers == (wanted,)


def test_the_tool_says_the_same_of_the_peer(wg: Wireguard) -> None:
    wanted = Peer(
        public_key=key(1),
        preshared_key=key(2),
        endpoint=("2001:db8::1", 51820),
        keepalive=25,
        allowed=(NETWORK, NETWORK6),
    )
    wg.set(put_peer(wanted))
    _, shown = wg.shown()
    assert [b64decode(shown[0]), b64decode(shown[1])] == [key(1), key(2)]
    assert shown[2:] == ["[2001:db8::1]:51820", "10.1.0.0/16,fd01::/48", "0", "0", "0", "25"]


def test_what_the_tool_sets_reads_back(wg: Wireguard) -> None:
    with wg.namespace.entered():
        words = "set wg0 listen-port 4242 peer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE= "
        words += "endpoint 192.0.2.9:99 persistent-keepalive 7 allowed-ips 10.1.0.0/16"
        subprocess.run(["wg", *words.split()], check=True)
    assert wg.device.listen_port == 4242
    assert wg.peers == (Peer(public_key=key(1), endpoint=("192.0.2.9", 99), keepalive=7, allowed=(NETWORK,)),)


def test_a_peer_that_is_put_again_has_only_what_it_has_now(wg: Wireguard) -> None:
    before = Peer(public_key=key(1), preshared_key=key(2), keepalive=25, allowed=(NETWORK, NETWORK6))
    after = Peer(public_key=key(1), allowed=(NETWORK6,))
    wg.set(put_peer(before))
    wg.set(put_peer(after))
    assert wg.peers == (after,)


def test_networks_can_be_added_to_a_peer(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1), keepalive=25, allowed=(NETWORK,))))
    wg.set(PeerChange(public_key=key(1), allowed=(NETWORK6,)))
    (found,) = wg.peers
    assert (found.keepalive, set(found.allowed)) == (25, {NETWORK, NETWORK6})


def test_a_network_moves_to_the_peer_that_gets_it_last(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1), allowed=(NETWORK,))))
    wg.set(put_peer(Peer(public_key=key(2), allowed=(NETWORK,))))
    assert {peer.public_key: peer.allowed for peer in wg.peers} == {key(1): (), key(2): (NETWORK,)}


def test_a_peer_can_be_removed_and_that_twice(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1))), put_peer(Peer(public_key=key(2))))
    for _ in range(2):
        wg.set(remove_peer(key(1)))
        assert [peer.public_key for peer in wg.peers] == [key(2)]


def test_an_update_makes_no_peer(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1)), update_only=True))
    assert wg.peers == ()


def test_an_update_changes_a_peer_that_is_there(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1))))
    wg.set(put_peer(Peer(public_key=key(1), keepalive=9), update_only=True))
    assert [peer.keepalive for peer in wg.peers] == [9]


def test_replacing_leaves_only_the_peers_that_are_named(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1))), put_peer(Peer(public_key=key(2))))
    wg.set(put_peer(Peer(public_key=key(3))), replace_peers=True)
    assert [peer.public_key for peer in wg.peers] == [key(3)]


def networks(count: int) -> tuple[Allowed, ...]:
    return tuple(
        Allowed(socket.AF_INET6, bytes([0xFD]) + number.to_bytes(15, "big"), 128) for number in range(count)
    )


def test_a_peer_with_thousands_of_networks_is_as_it_was_set(wg: Wireguard) -> None:
    wanted = networks(5000)
    wg.set(put_peer(Peer(public_key=key(1), preshared_key=key(2), keepalive=25, allowed=wanted)))
    (found,) = wg.peers
    assert (found.preshared_key, found.keepalive) == (key(2), 25)
    assert set(found.allowed) == set(wanted)
    assert len(found.allowed) == len(wanted)


def test_an_update_with_thousands_of_networks_makes_no_peer(wg: Wireguard) -> None:
    wg.set(put_peer(Peer(public_key=key(1), allowed=networks(5000)), update_only=True))
    assert wg.peers == ()


def test_a_thousand_peers_are_as_they_were_set(wg: Wireguard) -> None:
    wanted = {
        key(number): Peer(
            public_key=key(number),
            endpoint=("192.0.2.1", number),
            allowed=(Allowed(socket.AF_INET, number.to_bytes(4, "big"), 32),),
        )
        for number in range(1, 1001)
    }
    wg.set(*map(put_peer, wanted.values()), replace_peers=True)
    assert {peer.public_key: peer for peer in wg.peers} == wanted


def test_a_device_that_does_not_exist_is_refused(wg: Wireguard) -> None:
    with pytest.raises(Refused, match="WireGuard device 9999") as caught:
        read_device(wg.namespace.generic, 9999)
    assert caught.value.errno == errno.ENODEV


def test_a_link_that_is_no_wireguard_device_is_refused(wg: Wireguard) -> None:
    with pytest.raises(Refused, match="WireGuard device 1") as caught:
        configure(wg.namespace.generic, 1, listen_port=1)
    assert caught.value.errno == errno.EOPNOTSUPP


def test_a_refusal_does_not_tell_the_key(wg: Wireguard) -> None:
    secret = b"an all too short secret"
    with pytest.raises(Refused) as caught:
        wg.set(private_key=secret)
    assert "secret" not in str(caught.value)


def test_a_family_that_does_not_exist_is_none(wg: Wireguard) -> None:
    assert generic.family(wg.namespace.generic, "netloom-none") is None


def test_packets_pass_between_two_devices_and_are_counted(new_wireguard: Callable[[], Wireguard]) -> None:
    """The devices meet on a veth pair; each holds the other's key, and both the same preshared one."""
    one, two = new_wireguard(), new_wireguard()
    connect(one.namespace, two.namespace)
    own = {one: private(), two: private()}
    for number, each in enumerate(own, start=1):
        each.set(private_key=own[each], listen_port=51820)
        prepare(each, f"10.7.0.{number}")
    shared = os.urandom(32)
    everything = Allowed(socket.AF_INET, bytes(4), 0)
    for each, other, host in ((one, two, "192.0.2.2"), (two, one, "192.0.2.1")):
        public = other.device.public_key
        assert public is not None
        peer = Peer(public_key=public, preshared_key=shared, endpoint=(host, 51820), allowed=(everything,))
        each.set(put_peer(peer))
    before = time.time_ns()

    with two.namespace.entered():
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with one.namespace.entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with server, client:
        server.settimeout(20)
        server.bind(("10.7.0.2", 7))
        client.sendto(b"hello", ("10.7.0.2", 7))
        assert server.recv(16) == b"hello"

    (sender,), (receiver,) = one.peers, two.peers
    assert abs(sender.last_handshake - before) < 60 * 10**9
    assert receiver.rx >= sender.tx > 0
    assert two.shown()[1][4:7] == [str(receiver.last_handshake // 10**9), str(receiver.rx), str(receiver.tx)]


def connect(one: Namespace, two: Namespace) -> None:
    peer = link.veth_peer(link.properties(name="below"), two.fileno())
    one.route.change(link.NEW, CREATE | EXCLUSIVE, link.create("veth", link.properties(name="below"), peer))
    for number, namespace in enumerate((one, two), start=1):
        bring_up(namespace, namespace.route.index("below"), f"192.0.2.{number}", 24)


def prepare(wg: Wireguard, own: str) -> None:
    bring_up(wg.namespace, wg.index, own, 32)
    way = route.build(
        socket.AF_INET,
        socket.inet_aton("10.7.0.0"),
        24,
        hops=[RouteHop(wg.index, None)],
        scope=route.LINK_SCOPE,
    )
    wg.namespace.route.change(route.NEW, CREATE | EXCLUSIVE, way)


def bring_up(namespace: Namespace, index: int, own: str, prefix: int) -> None:
    packed = socket.inet_aton(own)
    namespace.route.change(
        address.NEW, CREATE | EXCLUSIVE, address.build(index, socket.AF_INET, packed, prefix)
    )
    namespace.route.change(link.NEW, 0, link.change(index, up=True))
