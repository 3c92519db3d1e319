"""WireGuard devices and their peers, by generic netlink.

A device with many peers or allowed networks takes several messages in both directions: `merge` makes one
device of a dump, `requests` splits a change into messages of valid size. No record or error text of this
module contains a secret key.
"""

from __future__ import annotations

import errno
import socket
from base64 import b64encode
from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import NamedTuple

from msgspec import Struct as Record

from ..errors import InvalidObject, Malformed, Refused, Unsupported
from .connection import NetlinkConnection
from .message import Attributes, each, nested, raw, text, u8, u16, u32

_HEADER = Struct("=BBH")  # command, version, reserved
SIZE = _HEADER.size

_CONTROL, _CONTROL_VERSION = 16, 2
_GET_FAMILY = 3
_FAMILY_ID, _FAMILY_NAME = 1, 2


def header(command: int, version: int) -> bytes:
    return _HEADER.pack(command, version, 0)


def body(payload: bytes) -> bytes:
    """Returns the message of a family after its header."""
    if len(payload) < SIZE:
        raise Malformed(f"a generic message of {len(payload)} bytes")
    return payload[SIZE:]


def by_name(name: str) -> bytes:
    return header(_GET_FAMILY, _CONTROL_VERSION) + text(_FAMILY_NAME, name)


def decode(payload: bytes) -> int:
    """Returns the number of a family."""
    number = Attributes(body(payload)).u16(_FAMILY_ID)
    if number is None:
        raise Malformed("a generic family without a number")
    return number


def family(connection: NetlinkConnection, name: str) -> int | None:
    """Returns the number by which requests name a family; None if the kernel has no such family."""
    try:
        answer = connection.ask(_CONTROL, by_name(name))
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise refused.during(f"generic netlink family {name}") from None
    if answer is None:
        raise Malformed(f"no answer about generic netlink family {name}")
    return decode(answer)


FAMILY, VERSION = "wireguard", 1
GET, SET = 0, 1
KEY_SIZE = 32
NO_KEY = bytes(KEY_SIZE)  # the kernel's value for the absence of a key

_INDEX, _NAME, _PRIVATE_KEY, _PUBLIC_KEY, _FLAGS, _LISTEN_PORT, _FWMARK, _PEERS = range(1, 9)
_PEER_KEY, _PEER_PRESHARED, _PEER_FLAGS, _PEER_ENDPOINT, _PEER_KEEPALIVE = range(1, 6)
_PEER_HANDSHAKE, _PEER_RX, _PEER_TX, _PEER_ALLOWED = range(6, 10)
_ALLOWED_FAMILY, _ALLOWED_ADDRESS, _ALLOWED_PREFIX = range(1, 4)
_REPLACE_PEERS = 1
_REMOVE, _REPLACE_ALLOWED, _UPDATE_ONLY = 1, 2, 4

_ENDPOINT4 = Struct("=H2s4s8x")  # family, port, address
_ENDPOINT6 = Struct("=H2s4s16sI")  # family, port, flow, address, scope
_TIME = Struct("=qq")
_BITS: dict[int, int] = {socket.AF_INET: 32, socket.AF_INET6: 128}
# A length has 16 bits, and the list of peers is one attribute that includes its header.
_ROOM = 0xFFFF - 4


class _Discreet(Record, frozen=True):
    """Shows public keys as `wg` does, and for secret keys only whether they exist."""

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, _shown(name, getattr(self, name))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"


def _shown(field: str, value: object) -> object:
    if isinstance(value, bytes):
        return b64encode(value).decode() if field == "public_key" else "(hidden)"
    return value


class Allowed(NamedTuple):
    """A network that a peer may send from, and whose packets are sent to that peer."""

    family: int
    packed: bytes
    prefix: int


class Peer(_Discreet, frozen=True, kw_only=True):
    """A peer. Its endpoint has a scope where it needs one, as in `fe80::1%2`.

    The last handshake is in nanoseconds since 1970; 0 means never.
    """

    public_key: bytes
    preshared_key: bytes | None = None
    endpoint: tuple[str, int] | None = None
    keepalive: int = 0
    allowed: tuple[Allowed, ...] = ()
    last_handshake: int = 0
    rx: int = 0
    tx: int = 0


class Device(_Discreet, frozen=True, kw_only=True):
    index: int
    name: str
    private_key: bytes | None
    public_key: bytes | None
    listen_port: int
    fwmark: int
    peers: tuple[Peer, ...]


class PeerChange(_Discreet, frozen=True, kw_only=True):
    """A change of one peer. None keeps a value; `NO_KEY` removes a preshared key."""

    public_key: bytes
    preshared_key: bytes | None = None
    endpoint: tuple[str, int] | None = None
    keepalive: int | None = None
    allowed: tuple[Allowed, ...] = ()
    replace_allowed: bool = False
    update_only: bool = False
    remove: bool = False


def put_peer(peer: Peer, *, update_only: bool = False) -> PeerChange:
    """Sets a peer exactly, or only if it exists. The kernel cannot remove an endpoint."""
    return PeerChange(
        public_key=peer.public_key,
        preshared_key=NO_KEY if peer.preshared_key is None else peer.preshared_key,
        endpoint=peer.endpoint,
        keepalive=peer.keepalive,
        allowed=peer.allowed,
        replace_allowed=True,
        update_only=update_only,
    )


def remove_peer(public_key: bytes) -> PeerChange:
    """Removes a peer; the kernel accepts it if the peer does not exist."""
    return PeerChange(public_key=public_key, remove=True)


def read_device(connection: NetlinkConnection, index: int) -> Device:
    try:
        return merge(connection.dump(_family(connection), get(index)))
    except Refused as refused:
        raise refused.during(f"read WireGuard device {index}") from None


def configure(
    connection: NetlinkConnection,
    index: int,
    *,
    private_key: bytes | None = None,
    listen_port: int | None = None,
    fwmark: int | None = None,
    peers: Iterable[PeerChange] = (),
    replace_peers: bool = False,
) -> None:
    """Changes a device; None keeps a value, and `NO_KEY` removes its private key.

    With `replace_peers`, all other peers are removed.

    The kernel applies one message before any other change of the device, but not atomically: after an error,
    the part before the invalid value is in force.
    """
    number = _family(connection)
    try:
        for request in requests(
            index,
            private_key=private_key,
            listen_port=listen_port,
            fwmark=fwmark,
            peers=peers,
            replace_peers=replace_peers,
        ):
            connection.change(number, 0, request)
    except Refused as refused:
        raise refused.during(f"configure WireGuard device {index}") from None


def _family(connection: NetlinkConnection) -> int:
    number = family(connection, FAMILY)
    if number is None:
        raise Unsupported("this kernel has no WireGuard", feature="wireguard")
    return number


def get(index: int) -> bytes:
    return header(GET, VERSION) + u32(_INDEX, index)


def merge(payloads: Iterable[bytes]) -> Device:
    """Merges the messages of a device's dump. Later ones lack fields that the first one had."""
    first: Attributes | None = None
    peers: dict[bytes, tuple[Attributes, list[Allowed]]] = {}
    for payload in payloads:
        found = Attributes(body(payload))
        first = first or found
        _collect(peers, found.raw(_PEERS) or b"")
    index = None if first is None else first.u32(_INDEX)
    if first is None or index is None:
        raise Malformed("a WireGuard device without an index")
    return Device(
        index=index,
        name=first.text(_NAME) or "",
        private_key=_key(first, _PRIVATE_KEY),
        public_key=_key(first, _PUBLIC_KEY),
        listen_port=first.u16(_LISTEN_PORT) or 0,
        fwmark=first.u32(_FWMARK) or 0,
        peers=tuple(_peer(key, told, allowed) for key, (told, allowed) in peers.items()),
    )


def _collect(peers: dict[bytes, tuple[Attributes, list[Allowed]]], data: bytes) -> None:
    for _, one in each(data):
        found = Attributes(one)
        key = _key(found, _PEER_KEY)
        if key is None:
            raise Malformed("a WireGuard peer without a key")
        # A continued peer has only its key and further networks.
        _, allowed = peers.setdefault(key, (found, []))
        allowed += [_allowed(Attributes(network)) for _, network in each(found.raw(_PEER_ALLOWED) or b"")]


def _peer(key: bytes, found: Attributes, allowed: list[Allowed]) -> Peer:
    endpoint = found.raw(_PEER_ENDPOINT)
    return Peer(
        public_key=key,
        preshared_key=_key(found, _PEER_PRESHARED),
        endpoint=None if endpoint is None else _endpoint(endpoint),
        keepalive=found.u16(_PEER_KEEPALIVE) or 0,
        allowed=tuple(allowed),
        last_handshake=_nanoseconds(found.raw(_PEER_HANDSHAKE)),
        rx=found.u64(_PEER_RX) or 0,
        tx=found.u64(_PEER_TX) or 0,
    )


def _key(found: Attributes, kind: int) -> bytes | None:
    data = found.raw(kind)
    if data is not None and len(data) != KEY_SIZE:
        raise Malformed(f"a WireGuard key of {len(data)} bytes")
    return None if data == NO_KEY else data


def _allowed(found: Attributes) -> Allowed:
    family, packed, prefix = (
        found.u16(_ALLOWED_FAMILY),
        found.raw(_ALLOWED_ADDRESS),
        found.u8(_ALLOWED_PREFIX),
    )
    if family is None or packed is None or prefix is None:
        raise Malformed("an allowed network that is not complete")
    bits = _BITS.get(family)
    if bits is None or len(packed) * 8 != bits or prefix > bits:
        raise Malformed(f"an allowed network of family {family} with {len(packed)} bytes and prefix {prefix}")
    return Allowed(family, packed, prefix)


def _endpoint(data: bytes) -> tuple[str, int]:
    if len(data) == _ENDPOINT4.size:
        family, port, packed = _ENDPOINT4.unpack(data)
        scope = 0
    elif len(data) == _ENDPOINT6.size:
        family, port, _, packed, scope = _ENDPOINT6.unpack(data)
    else:
        raise Malformed(f"a WireGuard endpoint of {len(data)} bytes")
    if _BITS.get(family) != len(packed) * 8:
        raise Malformed(f"a WireGuard endpoint of family {family} with {len(data)} bytes")
    address = socket.inet_ntop(family, packed)
    return (f"{address}%{scope}" if scope else address), int.from_bytes(port, "big")


def _nanoseconds(data: bytes | None) -> int:
    if data is None:
        return 0
    if len(data) != _TIME.size:
        raise Malformed(f"a time of {len(data)} bytes")
    seconds, rest = _TIME.unpack(data)
    return int(seconds * 1_000_000_000 + rest)


def requests(
    index: int,
    *,
    private_key: bytes | None = None,
    listen_port: int | None = None,
    fwmark: int | None = None,
    peers: Iterable[PeerChange] = (),
    replace_peers: bool = False,
) -> list[bytes]:
    """Returns the messages of one change, in the order to send them."""
    parts = []
    if replace_peers:
        parts.append(u32(_FLAGS, _REPLACE_PEERS))
    if private_key is not None:
        parts.append(raw(_PRIVATE_KEY, private_key))
    if listen_port is not None:
        parts.append(u16(_LISTEN_PORT, listen_port))
    if fwmark is not None:
        parts.append(u32(_FWMARK, fwmark))
    head = header(SET, VERSION) + u32(_INDEX, index)
    lists = _lists(piece for change in peers for piece in _pieces(change))
    first, *others = lists or [b""]
    return [head + b"".join(parts) + first, *(head + other for other in others)]


def _lists(pieces: Iterable[bytes]) -> list[bytes]:
    """Yields lists of peers, each as full as an attribute may be."""
    lists: list[list[bytes]] = []
    free = 0
    for piece in pieces:
        if len(piece) > free:
            lists.append([])
            free = _ROOM
        lists[-1].append(piece)
        free -= len(piece)
    return [nested(_PEERS, *pieces) for pieces in lists]


def _pieces(change: PeerChange) -> Iterator[bytes]:
    """Yields a peer as list items: several if its networks do not fit into the first."""
    flags = (
        _REMOVE * change.remove
        | _REPLACE_ALLOWED * change.replace_allowed
        | _UPDATE_ONLY * change.update_only
    )
    parts = [raw(_PEER_KEY, change.public_key)]
    if flags:
        parts.append(u32(_PEER_FLAGS, flags))
    if change.preshared_key is not None:
        parts.append(raw(_PEER_PRESHARED, change.preshared_key))
    if change.endpoint is not None:
        parts.append(raw(_PEER_ENDPOINT, _packed_endpoint(*change.endpoint)))
    if change.keepalive is not None:
        parts.append(u16(_PEER_KEEPALIVE, change.keepalive))
    head = b"".join(parts)
    # A program may remove the peer between two messages: later ones must not create half of it again.
    further = raw(_PEER_KEY, change.public_key) + u32(_PEER_FLAGS, _UPDATE_ONLY)
    networks: list[bytes] = []
    size = 0
    for network in map(_network, change.allowed):
        if size + len(network) > _ROOM - len(head) - 8:  # the headers of the peer and of its networks
            yield nested(0, head, nested(_PEER_ALLOWED, *networks))
            head, networks, size = further, [], 0
        networks.append(network)
        size += len(network)
    yield nested(0, head, nested(_PEER_ALLOWED, *networks)) if networks else nested(0, head)


def _network(allowed: Allowed) -> bytes:
    return nested(
        0,
        u16(_ALLOWED_FAMILY, allowed.family),
        raw(_ALLOWED_ADDRESS, allowed.packed),
        u8(_ALLOWED_PREFIX, allowed.prefix),
    )


def _packed_endpoint(host: str, port: int) -> bytes:
    address, _, scope = host.partition("%")
    try:
        number = port.to_bytes(2, "big")
        if ":" not in address:
            return _ENDPOINT4.pack(socket.AF_INET, number, socket.inet_pton(socket.AF_INET, host))
        packed = socket.inet_pton(socket.AF_INET6, address)
        return _ENDPOINT6.pack(socket.AF_INET6, number, bytes(4), packed, int(scope or 0))
    except (OSError, OverflowError, ValueError, error):
        raise InvalidObject(f"{host!r} and {port} are not an endpoint (an IP address and a port)") from None
