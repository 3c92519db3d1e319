"""Connections that the kernel tracks, by ctnetlink.

A dump is filtered only by family, protocol and port: the kernel's filter by address (CTA_FILTER, Linux 5.8)
is inverted for IPv6, where it lists the entries that do not match. Numbers in these messages are in network
byte order, except the filter's flags.
"""

from __future__ import annotations

import socket
from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import NESTED, Attributes, nested, raw, u8, u16be, u32

_SUBSYSTEM = 1 << 8
NEW, GET, DELETE, COUNT = _SUBSYSTEM, _SUBSYSTEM | 1, _SUBSYSTEM | 2, _SUBSYSTEM | 5

_HEADER = Struct("=BBH")  # family, version, resource
_ORIGINAL, _REPLY, _ID, _ZONE, _FILTER = 1, 2, 12, 18, 25
_IP, _PROTOCOL = 1, 2
# Attributes of source and destination, and the size of both.
_ADDRESSES: dict[int, tuple[int, int, int]] = {socket.AF_INET: (1, 2, 4), socket.AF_INET6: (3, 4, 16)}
_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_TRACKED = 1  # in the answer to COUNT

# The flags say which attributes of the original direction the filter compares.
_ORIGINAL_FLAGS = 1
_BY_NUMBER, _BY_SOURCE_PORT, _BY_DESTINATION_PORT = 1 << 3, 1 << 4, 1 << 5
# For other protocols, SCTP among them, the kernel's filter ignores the ports.
_FILTERED_BY_PORT = frozenset({socket.IPPROTO_TCP, socket.IPPROTO_UDP})

# Where every kernel puts the protocol and the destination port of the original direction: after the headers
# of the direction, its addresses, and its protocol; the source port is in between.
_GLIMPSES = {
    family: Struct(f"=6xH{4 + 2 * (4 + size) + 4}xHHB3x8xHH2s") for family, (_, _, size) in _ADDRESSES.items()
}


class ConntrackTuple(Record, frozen=True):
    """One direction of a connection. It has ports only for the protocols that have them."""

    source: bytes
    destination: bytes
    protocol: int
    source_port: int | None
    destination_port: int | None


class ConntrackEntry(Record, frozen=True):
    """A tracked connection. `key`, `zone` and `id` are the kernel's own bytes that identify the entry."""

    family: int
    original: ConntrackTuple
    reply: ConntrackTuple
    key: bytes
    zone: bytes | None
    id: bytes | None


def everything(family: int = socket.AF_UNSPEC) -> bytes:
    return _HEADER.pack(family, 0, 0)


def made_to(family: int, protocol: int, port: int) -> bytes:
    return _by_port(family, protocol, u16be(_DESTINATION_PORT, port), _BY_DESTINATION_PORT)


def made_from(family: int, protocol: int, port: int) -> bytes:
    return _by_port(family, protocol, u16be(_SOURCE_PORT, port), _BY_SOURCE_PORT)


def _by_port(family: int, protocol: int, port: bytes, flag: int) -> bytes:
    """Builds a dump request for the connections with this port, before translation, and as few others as
    possible.

    If the kernel cannot filter by a protocol's ports, it lists all connections of the protocol: the request
    is then the same for every port. A kernel before 5.8 lists everything.
    """
    parts, flags = u8(_NUMBER, protocol), _BY_NUMBER
    if protocol in _FILTERED_BY_PORT:
        parts, flags = parts + port, flags | flag
    return (
        _HEADER.pack(family, 0, 0)
        + nested(_ORIGINAL, nested(_PROTOCOL, parts))
        + nested(_FILTER, u32(_ORIGINAL_FLAGS, flags))
    )


def counted(payload: bytes) -> int:
    """Returns how many connections of all families the namespace tracks, from the answer to COUNT."""
    tracked = Attributes(payload[_HEADER.size :]).raw(_TRACKED)
    if tracked is None or len(tracked) != 4:
        raise Malformed("a count of tracked connections without the count")
    return int.from_bytes(tracked, "big")


def peek_port(payload: bytes) -> tuple[int, int] | None:
    """Returns the protocol and destination port of a connection without decoding it, in a twentieth of the
    time.

    None means that they are not at the expected place: the protocol has no ports, or the kernel orders
    attributes differently. Use `decode` then.
    """
    struct = _GLIMPSES.get(payload[0]) if payload else None
    if struct is None or len(payload) < struct.size:
        return None
    first, size, kind, number, port_size, port_kind, port = struct.unpack_from(payload)
    if (first, size, kind, port_size, port_kind) != (_ORIGINAL | NESTED, 5, _NUMBER, 6, _DESTINATION_PORT):
        return None
    return number, int.from_bytes(port, "big")


def decode(payload: bytes) -> ConntrackEntry:
    if len(payload) < _HEADER.size:
        raise Malformed(f"a tracked connection of {len(payload)} bytes")
    family = payload[0]
    found = Attributes(payload[_HEADER.size :])
    original, reply = found.raw(_ORIGINAL), found.raw(_REPLY)
    if original is None or reply is None:
        raise Malformed("a tracked connection without both of its directions")
    return ConntrackEntry(
        family=family,
        original=_direction(family, original),
        reply=_direction(family, reply),
        key=original,
        zone=found.raw(_ZONE),
        id=found.raw(_ID),
    )


def _direction(family: int, data: bytes) -> ConntrackTuple:
    found = Attributes(data)
    ip, protocol = found.nested(_IP), found.nested(_PROTOCOL)
    kinds = _ADDRESSES.get(family)
    if ip is None or protocol is None or kinds is None:
        raise Malformed(f"a tracked connection of family {family} without addresses or protocol")
    source, destination, number = ip.raw(kinds[0]), ip.raw(kinds[1]), protocol.u8(_NUMBER)
    if source is None or destination is None or number is None:
        raise Malformed("a tracked connection that lacks an address or its protocol's number")
    if len(source) != kinds[2] or len(destination) != kinds[2]:
        raise Malformed(f"a tracked connection's addresses have {len(source)} and {len(destination)} bytes")
    return ConntrackTuple(
        source, destination, number, _port(protocol, _SOURCE_PORT), _port(protocol, _DESTINATION_PORT)
    )


def _port(found: Attributes, kind: int) -> int | None:
    data = found.raw(kind)
    if data is not None and len(data) != 2:
        raise Malformed(f"a port of {len(data)} bytes")
    return None if data is None else int.from_bytes(data, "big")


def exactly(entry: ConntrackEntry) -> bytes:
    """Builds a request about this entry, and no later one with the same addresses and ports.

    A deletion without the key would delete every connection.
    """
    parts = [_HEADER.pack(entry.family, 0, 0), nested(_ORIGINAL, entry.key)]
    if entry.zone is not None:
        parts.append(raw(_ZONE, entry.zone))
    if entry.id is not None:
        parts.append(raw(_ID, entry.id))
    return b"".join(parts)
