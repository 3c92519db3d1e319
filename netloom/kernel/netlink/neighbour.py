"""Neighbours (the MACs of addresses on a link) and forwarding entries of bridges and VXLANs."""

from __future__ import annotations

from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import Attributes, raw, u8, u16, u32

NEW, DELETE, GET = 28, 29, 30

_INFO = Struct("=BxxxiHBB")
_DST, _MAC, _VLAN, _PORT, _VNI, _IFINDEX, _MASTER, _PROTOCOL = 1, 2, 5, 6, 7, 8, 9, 12
REACHABLE, STALE, DELAY, PROBE = 0x02, 0x04, 0x08, 0x10
PERMANENT, NOARP = 0x80, 0x40
SELF, MASTER, PROXY, LEARNED = 0x02, 0x04, 0x08, 0x10
AF_BRIDGE = 7


class NeighbourRecord(Record, frozen=True):
    family: int
    index: int
    state: int
    flags: int
    address: bytes | None
    mac: str | None
    vlan: int | None
    master: int | None
    # Of a VXLAN's far end, where they differ from the VXLAN's own.
    port: int | None = None
    vni: int | None = None
    protocol: int | None = None


def decode(payload: bytes) -> NeighbourRecord:
    if len(payload) < _INFO.size:
        raise Malformed(f"a neighbour of {len(payload)} bytes")
    family, index, state, flags, _ = _INFO.unpack_from(payload)
    found = Attributes(payload[_INFO.size :])
    port = found.raw(_PORT)
    return NeighbourRecord(
        family=family,
        index=index,
        state=state,
        flags=flags,
        address=found.raw(_DST),
        mac=found.mac(_MAC),
        vlan=found.u16(_VLAN),
        master=found.u32(_MASTER),
        port=None if port is None else int.from_bytes(port, "big"),
        vni=found.u32(_VNI),
        protocol=found.u8(_PROTOCOL),
    )


def build(
    family: int,
    index: int,
    *,
    address: bytes | None = None,
    mac: str | None = None,
    state: int = 0,
    flags: int = 0,
    vlan: int | None = None,
    protocol: int | None = None,
) -> bytes:
    parts = [_INFO.pack(family, index, state, flags, 0)]
    if address is not None:
        parts.append(raw(_DST, address))
    if mac is not None:
        parts.append(raw(_MAC, bytes.fromhex(mac.replace(":", ""))))
    if vlan is not None:
        parts.append(u16(_VLAN, vlan))
    if protocol is not None:
        parts.append(u8(_PROTOCOL, protocol))
    return b"".join(parts)


def everything(family: int) -> bytes:
    return _INFO.pack(family, 0, 0, 0, 0)


def of_link(family: int, index: int) -> bytes:
    """Builds a query for the neighbours on one link. The kernel filters."""
    return everything(family) + u32(_IFINDEX, index)


def proxies(family: int) -> bytes:
    """Builds a query for proxy entries, for which this host answers; the kernel lists them separately."""
    return _INFO.pack(family, 0, 0, PROXY, 0)


def forwarding_of(port: int) -> bytes:
    """Builds a query for the forwarding entries of one port."""
    return _INFO.pack(AF_BRIDGE, port, 0, 0, 0)
