"""Connections that the kernel tracks, by ctnetlink.

A dump is filtered by family only: the kernel's filter by address (CTA_FILTER) is inverted for
IPv6, it lists the entries that do not match. Numbers in these messages are in network byte order.
"""

from __future__ import annotations

import socket
from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .attributes import Attributes, nested, raw

_SUBSYSTEM = 1 << 8
NEW, GET, DELETE = _SUBSYSTEM, _SUBSYSTEM | 1, _SUBSYSTEM | 2

_HEADER = Struct("=BBH")  # family, version, resource
_ORIGINAL, _REPLY, _ID, _ZONE = 1, 2, 12, 18
_IP, _PROTOCOL = 1, 2
# Source, destination, and the size of both.
_ADDRESSES: dict[int, tuple[int, int, int]] = {socket.AF_INET: (1, 2, 4), socket.AF_INET6: (3, 4, 16)}
_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3


class Direction(Record, frozen=True):
    """One way of a connection. Ports are there for the protocols that have them."""

    source: bytes
    destination: bytes
    protocol: int
    source_port: int | None
    destination_port: int | None


class Entry(Record, frozen=True):
    """A tracked connection. `key`, `zone` and `id` are the kernel's own bytes, to name it again."""

    family: int
    original: Direction
    reply: Direction
    key: bytes
    zone: bytes | None
    id: bytes | None


def everything(family: int = socket.AF_UNSPEC) -> bytes:
    return _HEADER.pack(family, 0, 0)


def decode(payload: bytes) -> Entry:
    if len(payload) < _HEADER.size:
        raise Malformed(f"a tracked connection of {len(payload)} bytes")
    family = payload[0]
    found = Attributes(payload[_HEADER.size :])
    original, reply = found.raw(_ORIGINAL), found.raw(_REPLY)
    if original is None or reply is None:
        raise Malformed("a tracked connection without both of its directions")
    return Entry(
        family=family,
        original=_direction(family, original),
        reply=_direction(family, reply),
        key=original,
        zone=found.raw(_ZONE),
        id=found.raw(_ID),
    )


def _direction(family: int, data: bytes) -> Direction:
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
    return Direction(
        source, destination, number, _port(protocol, _SOURCE_PORT), _port(protocol, _DESTINATION_PORT)
    )


def _port(found: Attributes, kind: int) -> int | None:
    data = found.raw(kind)
    if data is not None and len(data) != 2:
        raise Malformed(f"a port of {len(data)} bytes")
    return None if data is None else int.from_bytes(data, "big")


def exactly(entry: Entry) -> bytes:
    """A request about this entry and no later one of the same addresses and ports.

    To delete, a request without the key would mean every connection there is.
    """
    parts = [_HEADER.pack(entry.family, 0, 0), nested(_ORIGINAL, entry.key)]
    if entry.zone is not None:
        parts.append(raw(_ZONE, entry.zone))
    if entry.id is not None:
        parts.append(raw(_ID, entry.id))
    return b"".join(parts)
