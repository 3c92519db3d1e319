"""The VLANs of a bridge's ports."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ..errors import Malformed
from .connection import NetlinkConnection
from .message import Attributes, each, nested, raw, u16, u32

NEW, DELETE, _GET = 19, 17, 18  # messages of links, of the bridge family

_INFO = Struct("=BxHiII")
_AF_BRIDGE = 7
_AF_SPEC, _EXT_MASK, _WITH_VLANS = 26, 29, 2
_FLAGS, _VLAN = 0, 2
_SELF = 2
_VLAN_INFO = Struct("=HH")
_PVID, _UNTAGGED, _RANGE_BEGIN, _RANGE_END = 2, 4, 8, 16


class Membership(NamedTuple):
    vlan: int
    pvid: bool
    untagged: bool


def build(index: int, member: Membership, *, itself: bool) -> bytes:
    flags = (_PVID if member.pvid else 0) | (_UNTAGGED if member.untagged else 0)
    parts = [u16(_FLAGS, _SELF)] if itself else []
    parts.append(raw(_VLAN, _VLAN_INFO.pack(flags, member.vlan)))
    return _INFO.pack(_AF_BRIDGE, 0, index, 0, 0) + nested(_AF_SPEC, *parts)


def everything() -> bytes:
    return _INFO.pack(_AF_BRIDGE, 0, 0, 0, 0) + u32(_EXT_MASK, _WITH_VLANS)


def of_link(connection: NetlinkConnection, index: int) -> list[Membership]:
    """Builds a query for all ports of the namespace; the kernel has no query for a single port."""
    found: list[Membership] = []
    for payload in connection.dump(_GET, everything()):
        if len(payload) < _INFO.size or _INFO.unpack_from(payload)[2] == index:
            found += decode(payload)[1]
    return found


def decode(payload: bytes) -> tuple[int, list[Membership]]:
    """Returns a port's index and its VLANs."""
    if len(payload) < _INFO.size:
        raise Malformed(f"a bridge port of {len(payload)} bytes")
    index = _INFO.unpack_from(payload)[2]
    members: list[Membership] = []
    begin = 0
    for kind, data in each(Attributes(payload[_INFO.size :]).raw(_AF_SPEC) or b""):
        if kind != _VLAN:
            continue
        if len(data) != _VLAN_INFO.size:
            raise Malformed(f"a port's VLAN of {len(data)} bytes")
        flags, vlan = _VLAN_INFO.unpack(data)
        if flags & _RANGE_BEGIN:
            begin = vlan
            continue
        first = begin if flags & _RANGE_END else vlan
        members += [
            Membership(number, bool(flags & _PVID), bool(flags & _UNTAGGED))
            for number in range(max(first, 0), min(vlan, 4095) + 1)
        ]
    return index, members
