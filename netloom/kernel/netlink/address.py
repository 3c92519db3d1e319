"""Addresses of links."""

from __future__ import annotations

import socket
from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import Attributes, raw, u8, u32

NEW, DELETE, GET = 20, 21, 22

_INFO = Struct("=BBBBI")
_ADDRESS, _LOCAL, _FLAGS, _PROTOCOL = 1, 2, 8, 11

SECONDARY, NODAD, NOPREFIXROUTE = 0x01, 0x02, 0x200
PERMANENT, TENTATIVE, FAILED = 0x80, 0x40, 0x08


class AddressRecord(Record, frozen=True):
    index: int
    address: str
    prefix: int
    peer: str | None
    scope: int
    flags: int
    # The protocol that made the address, from Linux 5.18 on.
    protocol: int | None = None


def decode(payload: bytes) -> AddressRecord:
    if len(payload) < _INFO.size:
        raise Malformed(f"an address of {len(payload)} bytes")
    _, prefix, flags, scope, index = _INFO.unpack_from(payload)
    found = Attributes(payload[_INFO.size :])
    far, near = found.ip(_ADDRESS), found.ip(_LOCAL)
    # IFA_LOCAL is the local address if there is one; IFA_ADDRESS is then the far end of the link.
    own = near or far
    if own is None:
        raise Malformed("an address without an address")
    full = found.u32(_FLAGS)
    return AddressRecord(
        index,
        own,
        prefix,
        far if near and far != near else None,
        scope,
        flags if full is None else full,
        found.u8(_PROTOCOL),
    )


def is_secondary(payload: bytes) -> bool:
    """Says, without decoding, whether the kernel deletes the address with the first one of its subnet."""
    return len(payload) >= _INFO.size and bool(payload[2] & SECONDARY)


def build(
    index: int,
    family: int,
    packed: bytes,
    prefix: int,
    *,
    flags: int = 0,
    peer: bytes | None = None,
    protocol: int | None = None,
) -> bytes:
    parts = [
        _INFO.pack(family, prefix, 0, 0, index),
        raw(_LOCAL, packed),
        raw(_ADDRESS, packed if peer is None else peer),
    ]
    if flags:
        parts.append(u32(_FLAGS, flags))
    if protocol is not None:
        parts.append(u8(_PROTOCOL, protocol))
    return b"".join(parts)


def of_link(index: int, family: int = socket.AF_UNSPEC, packed: bytes | None = None) -> bytes:
    """Builds a query for a link's addresses, or for a single one, which the kernel answers for IPv6 only."""
    return _INFO.pack(family, 0, 0, 0, index) + (b"" if packed is None else raw(_ADDRESS, packed))
