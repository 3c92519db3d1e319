"""Routes."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import NOTHING, Attributes, nested, raw, u32

NEW, DELETE, GET = 24, 25, 26

_INFO = Struct("=BBBBBBBBI")
_HOP = Struct("=HBBi")
_FAMILY = Struct("=H")
_DST, _OIF, _GATEWAY, _PRIORITY, _PREFSRC, _METRICS, _MULTIPATH, _TABLE, _VIA = 1, 4, 5, 6, 7, 8, 9, 15, 18
_MTU, _ADVMSS = 2, 8
ONLINK = 4
MAIN = 254
UNICAST, LOCAL, BLACKHOLE, UNREACHABLE, PROHIBIT = 1, 2, 6, 7, 8
UNIVERSE, LINK_SCOPE, HOST_SCOPE, NOWHERE = 0, 253, 254, 255
CLONED = 0x200
_LOOKUP_TABLE, _FIB_MATCH = 0x1000, 0x2000

# Marks the routes of netloom: `ip route show proto 78`.
PROTOCOL = 78


class RouteHop(Record, frozen=True):
    index: int | None
    gateway: bytes | None
    weight: int = 1
    onlink: bool = False


class RouteRecord(Record, frozen=True):
    family: int
    prefix: int
    destination: bytes
    tos: int
    table: int
    kind: int
    scope: int
    protocol: int
    flags: int
    priority: int
    source: bytes | None
    mtu: int | None
    advmss: int | None
    hops: tuple[RouteHop, ...]


def decode(payload: bytes) -> RouteRecord:
    if len(payload) < _INFO.size:
        raise Malformed(f"a route of {len(payload)} bytes")
    family, prefix, _, tos, table, protocol, scope, kind, flags = _INFO.unpack_from(payload)
    found = Attributes(payload[_INFO.size :])
    metrics = found.nested(_METRICS) or NOTHING
    listed = found.raw(_MULTIPATH)
    if listed is not None:
        hops = _hops(listed)
    elif _OIF in found or _GATEWAY in found or _VIA in found:
        hops = (RouteHop(found.u32(_OIF), _gateway(found), 1, bool(flags & ONLINK)),)
    else:
        hops = ()
    wide = found.u32(_TABLE)
    return RouteRecord(
        family=family,
        prefix=prefix,
        destination=found.raw(_DST) or bytes(16 if family == 10 else 4),
        tos=tos,
        table=table if wide is None else wide,
        kind=kind,
        scope=scope,
        protocol=protocol,
        flags=flags,
        priority=found.u32(_PRIORITY) or 0,
        source=found.raw(_PREFSRC),
        mtu=metrics.u32(_MTU),
        advmss=metrics.u32(_ADVMSS),
        hops=hops,
    )


def _gateway(found: Attributes) -> bytes | None:
    via = found.raw(_VIA)  # a gateway of the other family, after two bytes with the family
    return found.raw(_GATEWAY) if via is None else via[2:]


def _hops(data: bytes) -> tuple[RouteHop, ...]:
    hops = []
    position = 0
    while len(data) - position >= _HOP.size:
        length, flags, weight, index = _HOP.unpack_from(data, position)
        if length < _HOP.size or position + length > len(data):
            raise Malformed(f"a next hop claims {length} of {len(data) - position} bytes")
        found = Attributes(data[position + _HOP.size : position + length])
        hops.append(RouteHop(index, _gateway(found), weight + 1, bool(flags & ONLINK)))
        position += (length + 3) & ~3
    return tuple(hops)


def build(
    family: int,
    destination: bytes,
    prefix: int,
    *,
    hops: Sequence[RouteHop] = (),
    table: int = MAIN,
    kind: int = UNICAST,
    scope: int = UNIVERSE,
    protocol: int = 0,
    priority: int = 0,
    source: bytes | None = None,
    mtu: int | None = None,
    advmss: int | None = None,
) -> bytes:
    onlink = ONLINK if len(hops) == 1 and hops[0].onlink else 0
    parts = [
        _INFO.pack(family, prefix, 0, 0, table if table < 256 else 0, protocol, scope, kind, onlink),
        u32(_TABLE, table),
    ]
    if prefix:
        parts.append(raw(_DST, destination))
    if priority:
        parts.append(u32(_PRIORITY, priority))
    if source is not None:
        parts.append(raw(_PREFSRC, source))
    if mtu is not None or advmss is not None:
        values = ((_MTU, mtu), (_ADVMSS, advmss))
        parts.append(nested(_METRICS, *(u32(number, value) for number, value in values if value is not None)))
    if len(hops) == 1:
        parts += _single(hops[0], destination)
    elif hops:
        parts.append(raw(_MULTIPATH, b"".join(_one_of_many(hop, destination) for hop in hops)))
    return b"".join(parts)


def _single(hop: RouteHop, destination: bytes) -> list[bytes]:
    parts = [_gateway_attribute(hop.gateway, destination)] if hop.gateway is not None else []
    if hop.index is not None:
        parts.append(u32(_OIF, hop.index))
    return parts


def _one_of_many(hop: RouteHop, destination: bytes) -> bytes:
    gateway = b"" if hop.gateway is None else _gateway_attribute(hop.gateway, destination)
    flags = ONLINK if hop.onlink else 0
    return _HOP.pack(_HOP.size + len(gateway), flags, hop.weight - 1, hop.index or 0) + gateway


def _gateway_attribute(gateway: bytes, destination: bytes) -> bytes:
    """Builds the gateway attribute; an IPv6 gateway of an IPv4 route has an attribute of its own."""
    if len(gateway) == len(destination):
        return raw(_GATEWAY, gateway)
    return raw(_VIA, _FAMILY.pack(10 if len(gateway) == 16 else 2) + gateway)


def of_table(family: int, table: int, index: int | None = None, protocol: int = 0) -> bytes:
    """Builds a query for the routes of a table, a link, or a protocol. The kernel filters."""
    head = _INFO.pack(family, 0, 0, 0, table if table < 256 else 0, protocol, 0, 0, 0)
    return head + u32(_TABLE, table) + (b"" if index is None else u32(_OIF, index))


def matching(family: int, address: bytes, index: int | None = None) -> bytes:
    """Builds a query for the route that a packet to an address would take (by a link): a lookup, not a list.

    The answer is the table's own entry, not the kernel's derived route. Policy rules apply. IPv4 reports the
    table only on request, and IPv6 refuses that request.
    """
    flags = _FIB_MATCH | (_LOOKUP_TABLE if len(address) == 4 else 0)
    head = _INFO.pack(family, len(address) * 8, 0, 0, 0, 0, 0, 0, flags)
    return head + raw(_DST, address) + (b"" if index is None else u32(_OIF, index))


def is_default(payload: bytes) -> bool:
    """Says, without decoding, whether it is a default route: among thousands, very few are."""
    return payload[1:2] == b"\0"


def may_be_to(payload: bytes, destination: bytes, prefix: int) -> bool:
    """Says whether it needs decoding: among thousands, nearly all are to other destinations."""
    return payload[1:2] == bytes((prefix,)) and (not prefix or destination in payload)


def everything(family: int) -> bytes:
    return _INFO.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)


# Next hops as separate objects, which routes refer to by number (Linux 5.3 and later).
GET_NEXT_HOP = 106
_NEXT_HOP = Struct("=BBBxI")
_NEXT_HOP_OIF, _NEXT_HOP_GATEWAY = 5, 6


class NextHop(Record, frozen=True):
    """A group has neither an index nor a gateway: the kernel lists its members as well."""

    index: int | None
    gateway: bytes | None


def decode_next_hop(payload: bytes) -> NextHop:
    if len(payload) < _NEXT_HOP.size:
        raise Malformed(f"a next hop of {len(payload)} bytes")
    found = Attributes(payload[_NEXT_HOP.size :])
    return NextHop(found.u32(_NEXT_HOP_OIF), found.raw(_NEXT_HOP_GATEWAY))


def every_next_hop() -> bytes:
    return bytes(_NEXT_HOP.size)
