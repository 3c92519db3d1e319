from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Iterator
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netloom.kernel.errors import InvalidObject, Malformed
from netloom.kernel.netlink import wireguard
from netloom.kernel.netlink import wireguard as generic
from netloom.kernel.netlink.message import Attributes, each, nested, raw, text, u8, u16, u32, u64
from netloom.kernel.netlink.wireguard import NO_KEY, Allowed, Device, Peer, PeerChange, put_peer, remove_peer

pytestmark = pytest.mark.unit

# Numbers of include/uapi/linux/wireguard.h.
DEVICE_FLAGS, DEVICE_PRIVATE_KEY, DEVICE_PEERS = 5, 3, 8
PEER_FLAGS, PEER_ALLOWED = 3, 9
REMOVE, REPLACE, UPDATE = 1, 2, 4
LIMIT = 0xFFFF


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def networks6(count: int) -> tuple[Allowed, ...]:
    return tuple(Allowed(socket.AF_INET6, number.to_bytes(16, "big"), 128) for number in range(count))


def networks4(count: int) -> tuple[Allowed, ...]:
    return tuple(Allowed(socket.AF_INET, number.to_bytes(4, "big"), 32) for number in range(count))


def listed(request: bytes) -> list[Attributes]:
    """The peers of one message."""
    peers = Attributes(generic.body(request)).raw(DEVICE_PEERS)
    return [Attributes(data) for _, data in each(peers or b"")]


def sizes(request: bytes) -> Iterator[int]:
    for kind, data in each(generic.body(request)):
        yield 4 + len(data)
        if kind == DEVICE_PEERS:
            yield from (4 + len(peer) for _, peer in each(data))


keys = st.binary(min_size=32, max_size=32).filter(lambda found: found != NO_KEY)
ports = st.integers(0, 65535)
networks = st.one_of(
    st.builds(Allowed, st.just(socket.AF_INET), st.binary(min_size=4, max_size=4), st.integers(0, 32)),
    st.builds(Allowed, st.just(socket.AF_INET6), st.binary(min_size=16, max_size=16), st.integers(0, 128)),
)
hosts = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.binary(min_size=16, max_size=16).map(lambda packed: socket.inet_ntop(socket.AF_INET6, packed)),
    st.integers(1, 0xFFFFFFFF).map(lambda scope: f"fe80::1%{scope}"),
)
peers = st.builds(
    Peer,
    public_key=keys,
    preshared_key=st.none() | keys,
    endpoint=st.none() | st.tuples(hosts, ports),
    keepalive=ports,
    allowed=st.lists(networks, max_size=5).map(tuple),
)


@given(
    index=st.integers(1, 2**31 - 1),
    private_key=st.none() | keys,
    listen_port=ports,
    fwmark=st.integers(0, 0xFFFFFFFF),
    wanted=st.lists(peers, max_size=5, unique_by=lambda peer: peer.public_key),
)
def test_what_is_set_reads_back_the_same(
    index: int, private_key: bytes | None, listen_port: int, fwmark: int, wanted: list[Peer]
) -> None:
    sent = wireguard.requests(
        index,
        private_key=private_key,
        listen_port=listen_port,
        fwmark=fwmark,
        peers=[put_peer(peer) for peer in wanted],
    )
    assert wireguard.merge(sent) == Device(
        index=index,
        name="",
        private_key=private_key,
        public_key=None,
        listen_port=listen_port,
        fwmark=fwmark,
        peers=tuple(wanted),
    )


def from_kernel(*parts: bytes) -> bytes:
    return generic.header(wireguard.GET, wireguard.VERSION) + b"".join(parts)


def test_a_device_reads_as_the_kernel_writes_it() -> None:
    allowed = nested(0, u16(1, socket.AF_INET), raw(2, bytes([10, 0, 0, 0])), u8(3, 8))
    endpoint = pack("=H", socket.AF_INET) + (51820).to_bytes(2, "big") + bytes([192, 0, 2, 1]) + bytes(8)
    peer = nested(
        0,
        raw(1, key(7)),
        raw(2, NO_KEY),
        raw(6, pack("=qq", 1_700_000_000, 5)),
        u16(5, 25),
        u64(8, 2**40),
        u64(7, 3),
        u32(10, 1),
        raw(4, endpoint),
        nested(PEER_ALLOWED, allowed),
        raw(77, b"of a later kernel"),
    )
    keys = raw(3, key(1)) + raw(4, key(2))
    told = from_kernel(u16(6, 4242), u32(7, 0xCAFE), u32(1, 9), text(2, "wg0"), keys, nested(8, peer))
    assert wireguard.merge([told]) == Device(
        index=9,
        name="wg0",
        private_key=key(1),
        public_key=key(2),
        listen_port=4242,
        fwmark=0xCAFE,
        peers=(
            Peer(
                public_key=key(7),
                preshared_key=None,
                endpoint=("192.0.2.1", 51820),
                keepalive=25,
                allowed=(Allowed(socket.AF_INET, bytes([10, 0, 0, 0]), 8),),
                last_handshake=1_700_000_000_000_000_005,
                rx=3,
                tx=2**40,
            ),
        ),
    )


def continued(number: int, *networks: int) -> bytes:
    items = [
        nested(0, u16(1, socket.AF_INET), raw(2, bytes([10, 0, 0, last])), u8(3, 32)) for last in networks
    ]
    return nested(0, raw(1, key(number)), nested(PEER_ALLOWED, *items))


def test_a_peer_that_is_continued_in_later_messages_is_one_peer() -> None:
    first = nested(0, raw(1, key(1)), u16(5, 25), nested(PEER_ALLOWED))
    found = wireguard.merge(
        [
            from_kernel(u32(1, 9), text(2, "wg0"), u16(6, 4242), nested(8, first, continued(2, 1, 2))),
            from_kernel(text(2, "wg0"), nested(8, continued(2, 3))),
            from_kernel(text(2, "wg0"), nested(8, continued(2, 4), continued(3, 5))),
        ]
    )
    assert (found.index, found.listen_port) == (9, 4242)
    assert [(peer.public_key, [network.packed[3] for network in peer.allowed]) for peer in found.peers] == [
        (key(1), []),
        (key(2), [1, 2, 3, 4]),
        (key(3), [5]),
    ]
    assert found.peers[0].keepalive == 25


# Around the number of networks that just fits, and far beyond.
@pytest.mark.parametrize("count", [*range(1620, 1645), 5000])
def test_no_attribute_is_longer_than_its_length_can_say(count: int) -> None:
    wanted = Peer(public_key=key(1), preshared_key=key(2), endpoint=("::1", 1), allowed=networks6(count))
    sent = wireguard.requests(3, peers=[put_peer(wanted)])
    assert max(size for request in sent for size in sizes(request)) <= LIMIT
    assert wireguard.merge(sent).peers == (wanted,)


def test_a_split_peer_is_replaced_once_and_then_only_added_to() -> None:
    change = put_peer(Peer(public_key=key(1), allowed=networks6(5000)))
    flags = [
        peer.u32(PEER_FLAGS) for request in wireguard.requests(3, peers=[change]) for peer in listed(request)
    ]
    assert flags == [REPLACE, UPDATE, UPDATE, UPDATE]


def test_many_peers_take_several_messages_and_all_arrive_in_order() -> None:
    wanted = [Peer(public_key=key(number), allowed=networks4(3)) for number in range(1, 2001)]
    sent = wireguard.requests(3, peers=map(put_peer, wanted))
    assert len(sent) > 1
    assert max(size for request in sent for size in sizes(request)) <= LIMIT
    assert wireguard.merge(sent).peers == tuple(wanted)


def test_the_device_itself_is_set_in_the_first_message_only() -> None:
    wanted = put_peer(Peer(public_key=key(1), allowed=networks6(5000)))
    first, *others = wireguard.requests(3, private_key=key(9), peers=[wanted], replace_peers=True)
    assert Attributes(generic.body(first)).u32(DEVICE_FLAGS) == 1
    assert Attributes(generic.body(first)).raw(DEVICE_PRIVATE_KEY) == key(9)
    assert others
    for other in others:
        found = Attributes(generic.body(other))
        assert DEVICE_FLAGS not in found
        assert DEVICE_PRIVATE_KEY not in found


def test_nothing_to_change_still_says_which_device() -> None:
    assert wireguard.requests(3) == [
        generic.header(wireguard.SET, wireguard.VERSION) + u32(1, 3),
    ]


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        (remove_peer(key(1)), REMOVE),
        (put_peer(Peer(public_key=key(1))), REPLACE),
        (put_peer(Peer(public_key=key(1)), update_only=True), REPLACE | UPDATE),
        (PeerChange(public_key=key(1), allowed=networks4(1)), None),
    ],
)
def test_a_change_says_what_is_to_be_done_with_the_peer(change: PeerChange, flags: int | None) -> None:
    (request,) = wireguard.requests(3, peers=[change])
    (peer,) = listed(request)
    assert peer.u32(PEER_FLAGS) == flags


@pytest.mark.parametrize(
    "endpoint", [("example.org", 1), ("10.0.0", 1), ("::1%lo", 1), ("10.0.0.1", 65536), ("::1%-1", 1)]
)
def test_an_endpoint_that_is_none_is_refused(endpoint: tuple[str, int]) -> None:
    with pytest.raises(InvalidObject, match="endpoint"):
        wireguard.requests(3, peers=[PeerChange(public_key=key(1), endpoint=endpoint)])


def rich(record: Peer | Device | PeerChange) -> str:
    return "".join(f"{name}={value!r}" for name, value in record.__rich_repr__())


def test_no_record_shows_a_secret() -> None:
    private, preshared = bytes(range(65, 97)), bytes(range(97, 129))
    peer = Peer(public_key=key(1), preshared_key=preshared)
    device = Device(
        index=1,
        name="wg0",
        private_key=private,
        public_key=key(2),
        listen_port=1,
        fwmark=0,
        peers=(peer,),
    )
    shown = "".join(f"{record!r} {record} {rich(record)}" for record in (peer, device, put_peer(peer)))
    for secret in (private, preshared):
        for form in (repr(secret)[2:-1], repr(secret)[2:12], secret.hex(), b64encode(secret).decode()):
            assert form not in shown


def test_a_record_shows_the_public_key_as_the_tool_does() -> None:
    assert b64encode(key(77)).decode() in repr(Peer(public_key=key(77)))


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(b"\0", id="no header"),
        pytest.param(from_kernel(text(2, "wg0")), id="no index"),
        pytest.param(from_kernel(u32(1, 9), raw(3, bytes(31))), id="short key"),
        pytest.param(from_kernel(u32(1, 9), nested(8, nested(0, u16(5, 25)))), id="peer without key"),
        pytest.param(
            from_kernel(u32(1, 9), nested(8, nested(0, raw(1, key(1)), raw(4, bytes(16))))),
            id="endpoint of no family",
        ),
        pytest.param(
            from_kernel(u32(1, 9), nested(8, nested(0, raw(1, key(1)), raw(6, bytes(8))))), id="short time"
        ),
        pytest.param(
            from_kernel(
                u32(1, 9),
                nested(
                    8,
                    nested(0, raw(1, key(1)), nested(9, nested(0, u16(1, 2), raw(2, bytes(4)), u8(3, 33)))),
                ),
            ),
            id="prefix too long",
        ),
    ],
)
def test_a_message_that_cannot_be_is_malformed(told: bytes) -> None:
    with pytest.raises(Malformed):
        wireguard.merge([told])


WHOLE = wireguard.requests(
    3, peers=[put_peer(Peer(public_key=key(1), endpoint=("::1", 1), allowed=networks4(2)))]
)[0]


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
def test_damaged_messages_never_raise_anything_but_malformed(place: int, value: int, end: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] = value
    try:
        wireguard.merge([bytes(damaged[:end])])
    except Malformed:
        return


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_no_family(told: bytes) -> None:
    try:
        generic.decode(told)
    except Malformed:
        return
