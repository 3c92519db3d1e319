"""Matches and targets of iptables, which both packet filters of the kernel store as the same structures."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from .field import Field, Truth, truth
from .packet import DNAT, ICMP, ICMPV6, INVALID, SNAT, TCP, UDP, UNTRACKED, Marks, Packet
from .rules import Action

_Match: TypeAlias = Callable[[int, bytes, Packet, Marks], Truth]

_MARK = struct.Struct("=IIB")
_UNTRACKED_STATE, _UNTRACKED_CONNTRACK = 0x40, 0x100
_XT_SNAT, _XT_DNAT = 0x40, 0x80
# The evaluated fields of the match `conntrack`: the rest is about addresses, ports and times.
_CT_STATE, _CT_PROTO, _CT_STATUS, _CT_DIRECTION, _CT_ALIAS = 0x1, 0x2, 0x40, 0x1000, 0x2000
_CT_JUDGED = _CT_STATE | _CT_PROTO | _CT_STATUS | _CT_DIRECTION | _CT_ALIAS


def matches(name: str, revision: int, data: bytes, packet: Packet, marks: Marks) -> Truth:
    """Says whether a match holds. `UNCLEAR` if it is unknown here, or depends on more than the packet."""
    match = _MATCHES.get(name)
    if match is None:
        return Truth.UNCLEAR
    try:
        return match(revision, data, packet, marks)
    except struct.error:
        return Truth.UNCLEAR


def _ct_state(packet: Packet, marks: Marks, untracked: int) -> int:
    if marks.is_untracked or (packet.is_tracked and packet.state == UNTRACKED):
        return untracked
    return packet.state if packet.is_tracked else INVALID


def _conntrack(revision: int, data: bytes, packet: Packet, marks: Marks) -> Truth:
    if revision == 0:
        return Truth.UNCLEAR
    (proto,) = struct.unpack_from("=H", data, 136)
    flags, inverted = struct.unpack_from("=HH", data, 146)
    states, statuses = struct.unpack_from("=BB" if revision == 1 else "=HH", data, 150)
    has_connection = packet.has_connection and not marks.is_untracked
    result = Truth.YES
    if flags & _CT_STATE:
        state = Field(4, _ct_state(packet, marks, _UNTRACKED_CONNTRACK), 0xFFFFFFFF)
        if has_connection:
            nat = packet.status
            for bit, shown in ((SNAT, _XT_SNAT), (DNAT, _XT_DNAT)):
                state = Field(
                    4,
                    state.value | (shown if nat.value & bit else 0),
                    state.known & (0xFFFFFFFF if nat.known & bit else ~shown),
                )
        result &= _or_not(state.has_any(states), inverted & _CT_STATE)
    if not has_connection:
        return result if flags & _CT_STATE else Truth.NO
    if flags & _CT_DIRECTION:
        result &= truth(packet.is_reply == bool(inverted & _CT_DIRECTION))
    if flags & _CT_PROTO:
        result &= _or_not(truth(proto == packet.protocol), inverted & _CT_PROTO)
    if flags & _CT_STATUS:
        result &= _or_not(packet.status.has_any(statuses), inverted & _CT_STATUS)
    return result if not flags & ~_CT_JUDGED else result & Truth.UNCLEAR


def _state(_: int, data: bytes, packet: Packet, marks: Marks) -> Truth:
    (states,) = struct.unpack_from("=I", data)
    return truth(bool(states & _ct_state(packet, marks, _UNTRACKED_STATE)))


def _tcp(_: int, data: bytes, packet: Packet, __: Marks) -> Truth:
    if packet.protocol != TCP:
        return Truth.NO
    *ports, option, mask, wanted, inverted = struct.unpack_from("=HHHHBBBB", data)
    result = _ports(ports, inverted, packet)
    if mask:
        result &= _or_not(packet.tcp_flags.masked(mask).equals(wanted), inverted & 4)
    return result & Truth.OPEN if option else result


def _udp(_: int, data: bytes, packet: Packet, __: Marks) -> Truth:
    *ports, inverted = struct.unpack_from("=HHHHB", data)
    return _ports(ports, inverted, packet) if packet.protocol == UDP else Truth.NO


def _ports(ports: list[int], inverted: int, packet: Packet) -> Truth:
    source = _or_not(_port(packet.ports[0], ports[0], ports[1]), inverted & 1)
    return source & _or_not(_port(packet.ports[1], ports[2], ports[3]), inverted & 2)


def _port(port: Field, low: int, high: int) -> Truth:
    return port.within(low, high)


def _icmp(of: int) -> _Match:
    def match(_: int, data: bytes, packet: Packet, __: Marks) -> Truth:
        if packet.protocol != of or packet.icmp is None:
            return Truth.NO
        wanted, low, high, inverted = struct.unpack_from("=BBBB", data)
        any_type = of == ICMP and wanted == 0xFF
        return _or_not(truth(any_type or (wanted == packet.icmp and low <= 0 <= high)), inverted & 1)

    return match


def _multiport(revision: int, data: bytes, packet: Packet, _: Marks) -> Truth:
    if packet.icmp is not None:
        return Truth.NO
    which, count = data[0], data[1]
    ports = struct.unpack_from("=15H", data, 2)[:count]
    ranged = data[32 : 32 + count] if revision else bytes(count)
    inverted = data[47] if revision else 0
    ends = {0: packet.ports[:1], 1: packet.ports[1:]}.get(which, packet.ports)
    found = Truth.NO
    place = 0
    while place < count:
        low = high = ports[place]
        if ranged[place] and place + 1 < count:
            place += 1
            high = ports[place]
        for port in ends:
            found |= _port(port, low, high)
        place += 1
    return _or_not(found, inverted)


def _addrtype(revision: int, data: bytes, packet: Packet, _: Marks) -> Truth:
    source, destination = struct.unpack_from("=HH", data)
    if revision == 0:
        not_source, not_destination = struct.unpack_from("=II", data, 4)
    else:
        (flags,) = struct.unpack_from("=I", data, 4)
        if flags & 0xC:  # as seen by one link
            return Truth.UNCLEAR
        not_source, not_destination = flags & 1, flags & 2
    result = Truth.YES
    if source:
        result &= _or_not(truth(bool(source >> packet.source_type & 1)), not_source)
    if destination:
        result &= _or_not(truth(bool(destination >> packet.destination_type & 1)), not_destination)
    return result


def _mark(_: int, data: bytes, __: Packet, marks: Marks) -> Truth:
    return _marked(marks.packet, data)


def _connmark(_: int, data: bytes, packet: Packet, marks: Marks) -> Truth:
    if not packet.has_connection or marks.is_untracked:
        return Truth.NO
    return _marked(marks.connection, data)


def _marked(mark: Field, data: bytes) -> Truth:
    wanted, mask, inverted = _MARK.unpack_from(data)
    return _or_not(mark.masked(_number(mask)).equals(_number(wanted)), inverted)


def _iprange(revision: int, data: bytes, packet: Packet, _: Marks) -> Truth:
    if revision == 0:
        return Truth.UNCLEAR
    size = packet.source.size
    ends = [int.from_bytes(data[at : at + size], "big") for at in range(0, 64, 16)]
    flags = data[64]
    result = Truth.YES
    if flags & 0x1:
        result &= _or_not(packet.source.within(ends[0], ends[1]), flags & 0x10)
    if flags & 0x2:
        result &= _or_not(packet.destination.within(ends[2], ends[3]), flags & 0x20)
    return result


def _physdev(_: int, data: bytes, __: Packet, ___: Marks) -> Truth:
    """For a packet that passes no bridge, only inverted conditions hold."""
    inverted, wanted = data[64], data[65]
    return truth(not wanted & ~inverted)


def _pkttype(_: int, data: bytes, packet: Packet, __: Marks) -> Truth:
    kind, inverted = struct.unpack_from("=ii", data)
    if packet.kind is None:
        return Truth.OPEN
    return _or_not(truth(kind == packet.kind), inverted)


def _hop_limit(_: int, data: bytes, packet: Packet, __: Marks) -> Truth:
    """Compares the hop limit: equal, not equal, less, or greater."""
    mode, limit = struct.unpack_from("=BB", data)
    if mode < 2:
        return _or_not(packet.hop_limit.equals(limit), mode)
    return packet.hop_limit.within(0, limit - 1) if mode == 2 else packet.hop_limit.within(limit + 1, 0xFF)


def _rpfilter(_: int, data: bytes, __: Packet, ___: Marks) -> Truth:
    """Checks the reverse path: containers are reached by the links that they send by."""
    return truth(not data[0] & 0x8)


def _owner(_: int, data: bytes, packet: Packet, __: Marks) -> Truth:
    wanted, inverted = struct.unpack_from("=BB", data, 16)
    return Truth.OPEN if packet.iif is None else truth(wanted == inverted)


def _always(_: int, __: bytes, ___: Packet, ____: Marks) -> Truth:
    return Truth.YES


def _never(_: int, __: bytes, ___: Packet, ____: Marks) -> Truth:
    return Truth.NO


def _open(_: int, __: bytes, ___: Packet, ____: Marks) -> Truth:
    return Truth.OPEN


# Rate limits, ipsets, random choice and the like are missing here: those are unclear.
_MATCHES: Mapping[str, _Match] = {
    "conntrack": _conntrack,
    "state": _state,
    "tcp": _tcp,
    "udp": _udp,
    "icmp": _icmp(ICMP),
    "icmp6": _icmp(ICMPV6),
    "multiport": _multiport,
    "addrtype": _addrtype,
    "mark": _mark,
    "connmark": _connmark,
    "iprange": _iprange,
    "physdev": _physdev,
    "pkttype": _pkttype,
    "hl": _hop_limit,
    "rpfilter": _rpfilter,
    "owner": _owner,
    "comment": _always,
    # Headers that a model packet does not have.
    **dict.fromkeys(("rt", "frag", "hbh", "dst", "mh", "ah", "esp", "sctp", "dccp", "udplite"), _never),
    # Parts of headers that the packet leaves open.
    **dict.fromkeys(("ttl", "tos", "dscp", "ecn", "length", "mac", "tcpmss"), _open),
}

_PASSING = frozenset(
    {"LOG", "NFLOG", "ULOG", "TCPMSS", "TCPOPTSTRIP", "CLASSIFY", "DSCP", "TOS", "TTL", "HL", "ECN", "AUDIT",
     "CHECKSUM", "SET", "TRACE", "SECMARK", "CONNSECMARK", "TEE", "RATEEST", "IDLETIMER", "LED"}
)  # fmt: skip


def target(
    name: str, revision: int, data: bytes, packet: Packet, marks: Marks, *, sure: bool
) -> Action | None:
    """Returns what a target does with a packet; None means the next rule."""
    if name in ("REJECT", "DROP"):
        return Action("drop")
    if name in _PASSING:
        return None
    if name == "MARK" and revision == 2:
        mark, mask = struct.unpack_from("=II", data)
        marks.set_packet(_set(marks.packet, mark, mask), sure=sure)
        return None
    if name == "CONNMARK":
        _set_connmark(data, marks, sure=sure)
        return None
    if name in ("CT", "NOTRACK"):
        is_untracked = name == "NOTRACK" or struct.unpack_from("=H", data)[0] & 1
        if sure and is_untracked and not packet.is_tracked:
            marks.is_untracked = True
        return None
    return Action("unclear")


def _set_connmark(data: bytes, marks: Marks, *, sure: bool) -> None:
    if len(data) < 13:
        marks.set_packet(marks.packet, sure=False)
        marks.set_connection(marks.connection, sure=False)
        return
    value, of_connection, of_packet, mode = struct.unpack_from("=IIIB", data)
    if mode == 0:
        marks.set_connection(_set(marks.connection, value, of_connection), sure=sure)
    elif mode == 1:
        kept = marks.connection.masked(_number(~of_connection & 0xFFFFFFFF))
        marks.set_connection(_xor(kept, marks.packet.masked(_number(of_packet))), sure=sure)
    else:
        kept = marks.packet.masked(_number(~of_packet & 0xFFFFFFFF))
        marks.set_packet(_xor(kept, marks.connection.masked(_number(of_connection))), sure=sure)


def _set(mark: Field, value: int, mask: int) -> Field:
    return mark.masked(_number(~mask & 0xFFFFFFFF), _number(value))


def _xor(one: Field, other: Field) -> Field:
    return Field(one.size, one.value ^ other.value, one.known & other.known, one.clear and other.clear)


def _number(value: int) -> int:
    """Reads bytes in this machine's order as a big-endian number."""
    return int.from_bytes(value.to_bytes(4, sys.byteorder), "big")


def _or_not(found: Truth, inverted: int | bool) -> Truth:
    return ~found if inverted else found
