"""Expressions of nftables rules: compiles each to a step that evaluates it for a packet.

Expressions load parts of a packet into registers and compare them there. Matches and targets of iptables may
be among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..errors import Malformed
from ..netlink.message import NOTHING, Attributes
from . import xt
from .field import Field, Truth, joined
from .nft_sets import SetLookup, SetReader
from .packet import INVALID, UNTRACKED, Layer, Marks, Packet, PacketLink
from .rules import Action

_NAME, _DATA = 1, 2
_VALUE, _VERDICT = 1, 2
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_UNKNOWN, _OPEN = Field.open(4, clear=False), Field.open(16)


def compiled(expression: bytes) -> Step:
    parsed = Attributes(expression)
    compile_ = _COMPILE.get(parsed.text(_NAME) or "", _unclear)
    try:
        return compile_(parsed.nested(_DATA) or NOTHING)
    except Malformed:
        return _unclear(NOTHING)


class Ends(NamedTuple):
    holds: Truth
    action: Action


class Run:
    """The evaluation of one rule for one packet. Registers are kept as words of four bytes."""

    def __init__(self, packet: Packet, marks: Marks, sets: SetReader, *, sure: bool) -> None:
        self.packet = packet
        self.marks = marks
        self.sets = sets
        self.holds = Truth.YES
        self._sure = sure
        self._words = [_UNKNOWN] * 20

    @property
    def is_sure(self) -> bool:
        return self._sure and self.holds is Truth.YES

    def load(self, register: int, size: int) -> Field:
        words = self._words[_word(register) : _word(register) + (size + 3) // 4]
        return joined(*words).part(0, size)

    def store(self, register: int, value: Field) -> None:
        first = _word(register)
        for number in range((value.size + 3) // 4):
            part = value.part(4 * number, min(4, value.size - 4 * number))
            if part.size < 4:
                part = joined(part, Field.of(bytes(4 - part.size)))
            self._words[first + number] = part

    def forget(self, register: int) -> None:
        """Marks the register as unknown."""
        for number in range(_word(register), min(_word(register) + 4, 16)):
            self._words[number] = _UNKNOWN


# The effect of an expression: None, or how the rule ends.
Step: TypeAlias = Callable[[Run], Sequence[Ends] | None]


def _word(register: int) -> int:
    """Returns the word of a register: NFT_REG_1 to 4 have four words each, NFT_REG32_00 to 15 are single
    words.
    """
    if 1 <= register <= 4:
        return 4 * (register - 1)
    if 8 <= register <= 23:
        return register - 8
    raise Malformed(f"unknown register {register}")


def big(found: Attributes, kind: int) -> int:
    return int.from_bytes(found.raw(kind) or b"", "big")


def _value(found: Attributes, kind: int) -> bytes:
    data = found.nested(kind)
    return (data.raw(_VALUE) if data is not None else None) or b""


def _action(data: Attributes | None) -> Action | None:
    """Returns the action of a verdict; None means the next rule."""
    verdict = data.nested(_VERDICT) if data is not None else None
    if verdict is None:
        return Action("unclear")
    code = big(verdict, _VERDICT_CODE)
    code -= 1 << 32 if code >> 31 else 0
    chain = verdict.text(_VERDICT_CHAIN) or ""
    if code in (-3, -4):
        return Action("jump" if code == -3 else "goto", chain)
    if code == -1:
        return None
    known = {0: Action("drop"), 1: Action("accept"), -5: Action("return")}
    return known.get(code, Action("unclear"))


def _unclear(_: Attributes) -> Step:
    """Stands for an unknown expression, or one whose result depends on more than the packet."""

    def step(run: Run) -> None:
        run.holds &= Truth.UNCLEAR

    return step


def _passing(_: Attributes) -> Step:
    return lambda _: None


def _immediate(it: Attributes) -> Step:
    register = big(it, 1)
    if register:
        value = Field.of(_value(it, 2))
        return lambda run: run.store(register, value)
    action = _action(it.nested(2))
    return lambda run: () if action is None else (Ends(run.holds, action),)


def _cmp(it: Attributes) -> Step:
    register, op, data = big(it, 1), big(it, 2), _value(it, 3)
    size, wanted = len(data), int.from_bytes(data, "big")
    low, high = {2: (0, wanted - 1), 3: (0, wanted), 4: (wanted + 1, _top(size))}.get(
        op, (wanted, _top(size))
    )

    def step(run: Run) -> None:
        found = run.load(register, size)
        if op > 1:
            run.holds &= found.within(low, high)
        else:
            run.holds &= ~found.equals(wanted) if op else found.equals(wanted)

    return step


def _top(size: int) -> int:
    return (1 << 8 * size) - 1


def _range(it: Attributes) -> Step:
    register, op, first, last = big(it, 1), big(it, 2), _value(it, 3), _value(it, 4)
    low, high = int.from_bytes(first, "big"), int.from_bytes(last, "big")

    def step(run: Run) -> None:
        holds = run.load(register, len(first)).within(low, high)
        run.holds &= ~holds if op else holds

    return step


def _bitwise(it: Attributes) -> Step:
    source, target, mask, xor = big(it, 1), big(it, 2), _value(it, 4), _value(it, 5)
    if big(it, 6) or len(mask) != big(it, 3):  # shifts, and operations on two registers
        return lambda run: run.forget(target)
    size, kept, turned = len(mask), int.from_bytes(mask, "big"), int.from_bytes(xor, "big")
    return lambda run: run.store(target, run.load(source, size).masked(kept, turned))


def _byteorder(it: Attributes) -> Step:
    source, target, size, unit = big(it, 1), big(it, 2), big(it, 4), big(it, 5)
    return lambda run: run.store(target, run.load(source, size).swapped(unit or size))


def _payload(it: Attributes) -> Step:
    if 5 in it:  # which writes
        return _passing(it)
    register, base, offset, size = big(it, 1), big(it, 2), big(it, 3), big(it, 4)
    if base == 0:
        return lambda run: run.store(register, run.packet.link_header.part(offset, size))
    if base == 1:
        return lambda run: run.store(register, run.packet.network_header.part(offset, size))
    if base == 2:

        def transport(run: Run) -> None:
            if run.packet.arp is not None:  # the packet has no such header
                run.holds = Truth.NO
            else:
                run.store(register, run.packet.transport_header.part(offset, size))

        return transport
    return lambda run: run.store(register, Field.open(size))


def _name(link: PacketLink | None) -> Field:
    return Field.of((link.name if link else "").encode().ljust(16, b"\0"))


def _index(link: PacketLink | None) -> Field:
    return Field.number(link.index if link else 0)


def _kind(link: PacketLink | None) -> Field:
    return Field.number(link.kind if link else 0, 2)


# enum nft_meta_keys.
_META_MARK, _META_L4PROTO, _META_PACKET_TYPE, _META_OF_SOCKET = 3, 16, 19, frozenset({10, 11, 23})


_NFPROTO: Mapping[Layer, int] = {4: 2, 6: 10, "arp": 3}


_META: Mapping[int, Callable[[Packet], Field]] = {
    1: lambda packet: packet.ethertype,
    4: lambda packet: _index(packet.iif),
    5: lambda packet: _index(packet.oif),
    6: lambda packet: _name(packet.iif),
    7: lambda packet: _name(packet.oif),
    8: lambda packet: _kind(packet.iif),
    9: lambda packet: _kind(packet.oif),
    15: lambda packet: Field.of(bytes([_NFPROTO[packet.layer]])),
    _META_L4PROTO: lambda packet: Field.of(bytes([packet.protocol])),
    _META_PACKET_TYPE: lambda packet: (
        Field.open(1) if packet.kind is None else Field.of(bytes([packet.kind]))
    ),
}


def _meta(it: Attributes) -> Step:
    register, key, source = big(it, 1), big(it, 2), big(it, 3)
    if 3 in it:
        if key != _META_MARK:
            return _passing(it)
        return lambda run: run.marks.set_packet(run.load(source, 4), sure=run.is_sure)
    if key == _META_MARK:
        return lambda run: run.store(register, run.marks.packet)
    read = _META.get(key)

    def load(run: Run) -> None:
        if key == _META_L4PROTO and run.packet.arp is not None:
            run.holds = Truth.NO
        elif read is not None:
            run.store(register, read(run.packet))

    if read is not None:
        return load

    def step(run: Run) -> None:
        # Users, groups and cgroups belong to a socket, which forwarded packets do not have.
        if key in _META_OF_SOCKET and run.packet.hook == "forward":
            run.holds = Truth.NO
        else:
            run.store(register, _OPEN)

    return step


# enum nft_ct_keys.
_CT_STATE, _CT_DIRECTION, _CT_STATUS, _CT_MARK, _CT_PROTOCOL = 0, 1, 2, 3, 10


def _ct(it: Attributes) -> Step:
    register, key, source = big(it, 1), big(it, 2), big(it, 4)
    if 4 in it:
        if key != _CT_MARK:
            return _passing(it)

        def write(run: Run) -> None:
            if run.packet.has_connection and not run.marks.is_untracked:
                run.marks.set_connection(run.load(source, 4), sure=run.is_sure)

        return write

    def step(run: Run) -> None:
        packet = run.packet
        is_untracked = run.marks.is_untracked
        if key == _CT_STATE:
            state = UNTRACKED if is_untracked else packet.state if packet.is_tracked else INVALID
            run.store(register, Field.number(state))
        elif is_untracked or not packet.has_connection:
            run.holds = Truth.NO
        elif key == _CT_DIRECTION:
            run.store(register, Field.of(bytes([packet.is_reply])))
        elif key == _CT_STATUS:
            run.store(register, packet.status.native())
        elif key == _CT_MARK:
            run.store(register, run.marks.connection)
        elif key == _CT_PROTOCOL:
            run.store(register, Field.of(bytes([packet.protocol])))
        else:
            run.forget(register)

    return step


def _lookup(it: Attributes) -> Step:
    name, source, target, is_inverted = it.text(1) or "", big(it, 2), big(it, 3), bool(big(it, 5) & 1)

    def found(run: Run) -> list[SetLookup]:
        size = run.sets.key_size(name) or 64 - 4 * _word(source)
        return run.sets.find(name, run.load(source, size))

    def member(run: Run) -> None:
        holds = Truth.NO
        for one in found(run):
            holds |= one.holds
        run.holds &= ~holds if is_inverted else holds

    def verdict(run: Run) -> Sequence[Ends]:
        """Looks up a verdict. It is unknown if the kernel cannot look up a single key of a named map."""
        actions = [
            (one.holds, _action(one.data) if one.data is not None else Action("unclear"))
            for one in found(run)
        ]
        return [Ends(run.holds & holds, action) for holds, action in actions if action is not None]

    def value(run: Run) -> None:
        listed = found(run)
        if not listed:
            run.holds = Truth.NO
        elif listed[0].holds is Truth.YES and listed[0].data is not None:
            run.store(target, Field.of(listed[0].data.raw(_VALUE) or b""))
        else:
            run.holds &= listed[0].holds
            run.forget(target)

    return member if 3 not in it else value if target else verdict


# enum nft_fib_result, and NFTA_FIB_F_*.
_FIB_INDEX, _FIB_TYPE, _FIB_OF_SOURCE, _FIB_PRESENT = 1, 3, 0x1, 0x20


def _fib(it: Attributes) -> Step:
    register, result, flags = big(it, 1), big(it, 2), big(it, 3)

    def step(run: Run) -> None:
        packet = run.packet
        if result == _FIB_TYPE:
            of_source = flags & _FIB_OF_SOURCE
            run.store(register, Field.number(packet.source_type if of_source else packet.destination_type))
        elif flags & _FIB_PRESENT:
            run.store(register, Field.number(1))
        elif flags & _FIB_OF_SOURCE and packet.iif is not None:
            # Containers and external hosts are reached by the links that they send by.
            run.store(register, _index(packet.iif) if result == _FIB_INDEX else _name(packet.iif))
        else:
            run.forget(register)

    return step


def _reject(_: Attributes) -> Step:
    return lambda run: (Ends(run.holds, Action("drop")),)


def _queue(_: Attributes) -> Step:
    return lambda run: (Ends(run.holds, Action("unclear")),)


def _match(it: Attributes) -> Step:
    name, revision, data = it.text(1) or "", big(it, 2), it.raw(3) or b""

    def step(run: Run) -> None:
        run.holds &= xt.matches(name, revision, data, run.packet, run.marks)

    return step


def _target(it: Attributes) -> Step:
    name, revision, data = it.text(1) or "", big(it, 2), it.raw(3) or b""

    def step(run: Run) -> Sequence[Ends]:
        action = xt.target(name, revision, data, run.packet, run.marks, sure=run.is_sure)
        return () if action is None else (Ends(run.holds, action),)

    return step


def _notrack(_: Attributes) -> Step:
    def step(run: Run) -> None:
        if run.is_sure and not run.packet.is_tracked:
            run.marks.is_untracked = True

    return step


def _dynset(it: Attributes) -> Step:
    """Adds to a set; with a limit, the expression also matches."""
    return _unclear(it) if 7 in it or 10 in it else _passing(it)


def _objref(it: Attributes) -> Step:
    """Counters and helpers always pass; quotas and limits match."""
    return _unclear(it) if big(it, 1) in (2, 4, 5) or 1 not in it else _passing(it)


def _loads_something(it: Attributes) -> Step:
    register = big(it, 1)
    return (lambda run: run.forget(register)) if 1 in it else _unclear(it)


_COMPILE: Mapping[str, Callable[[Attributes], Step]] = {
    "immediate": _immediate,
    "cmp": _cmp,
    "range": _range,
    "bitwise": _bitwise,
    "byteorder": _byteorder,
    "payload": _payload,
    "meta": _meta,
    "ct": _ct,
    "lookup": _lookup,
    "fib": _fib,
    "reject": _reject,
    "queue": _queue,
    "fwd": _queue,
    "match": _match,
    "target": _target,
    "notrack": _notrack,
    "dynset": _dynset,
    "objref": _objref,
    "rt": _loads_something,
    "socket": _loads_something,
    "osf": _loads_something,
    **dict.fromkeys(("counter", "log", "last", "dup", "flow_offload", "synproxy"), _passing),
}
