"""Rules of nftables, read from the kernel chain by chain and evaluated as the kernel does it.

A rule is a little program: expressions load parts of a packet into registers and compare them there. Tables
that `iptables` of today writes are the same, with matches of iptables among the expressions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..errors import Malformed, Refused
from ..netlink.attributes import NOTHING, Attributes, each, text
from ..netlink.connection import Connection
from . import xt
from .field import Field, Truth, joined
from .nft_sets import Found, SetReader
from .packet import HOOKS, INVALID, UNTRACKED, Hook, Layer, Link, Marks, Packet
from .rules import Action, BaseChain, Rule

_GET_CHAIN, _GET_RULE, _GET_GENERATION = 10 << 8 | 4, 10 << 8 | 7, 10 << 8 | 16
_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 10: "ip6"}
_NUMBERS = {name: number for number, name in _FAMILIES.items()}
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_POLICY, _CHAIN_TYPE = 1, 3, 4, 5, 7
_HOOK_NUMBER, _HOOK_PRIORITY, _HOOK_DEVICE, _HOOK_DEVICES = 1, 2, 3, 4
_DEVICE_PREFIX = 2
_UP_TO_HOOK = frozenset({_CHAIN_HOOK})
_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS = 1, 2, 3, 4
_RULE_PARTS = frozenset({_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS})
_NAME, _DATA = 1, 2
_VALUE, _VERDICT = 1, 2
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_GENERATION = 1

# A chain of the type `nat` sees the first packet of a connection, to translate it; `route` is for output.
_TYPES = frozenset({"filter", "route"})
_UNKNOWN, _OPEN = Field.open(4, clear=False), Field.open(16)


def generation(connection: Connection) -> int:
    """A number that changes with every change of nftables' rules, by whomever."""
    answer = connection.ask(_GET_GENERATION, bytes(4))
    return int.from_bytes(Attributes((answer or b"")[4:]).raw(_GENERATION) or b"", "big")


class Nftables:
    """Only chains that a packet meets are read: a cluster's proxy has tens of thousands of rules."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chains: dict[tuple[str, str, str], list[Rule]] = {}
        self._sets: dict[tuple[str, str], SetReader] = {}

    def bases(self) -> list[BaseChain]:
        try:
            listed = self._connection.dump(_GET_CHAIN, bytes(4))
        except Refused as refused:
            if refused.errno == errno.ENOENT:
                return []
            raise
        found = []
        for payload in listed:
            if _CHAIN_HOOK not in Attributes.some(payload, 4, _UP_TO_HOOK):
                continue
            family, chain = _FAMILIES.get(payload[0]), Attributes(payload[4:])
            hook = chain.nested(_CHAIN_HOOK)
            if family is None or hook is None or chain.text(_CHAIN_TYPE) not in _TYPES:
                continue
            named = _hooks_of(family)
            number = _big(hook, _HOOK_NUMBER)
            if number >= len(named):
                continue
            priority = _big(hook, _HOOK_PRIORITY)
            found.append(
                BaseChain(
                    backend="nft",
                    family=family,
                    table=chain.text(_CHAIN_TABLE) or "",
                    name=chain.text(_CHAIN_NAME) or "",
                    hook=named[number],
                    priority=priority - (1 << 32) if priority >> 31 else priority,
                    policy="accept" if _big(chain, _CHAIN_POLICY) else "drop",
                    devices=_devices(hook),
                )
            )
        return found

    def rules(self, base: BaseChain, chain: str) -> Sequence[Rule]:
        place = base.family, base.table, chain
        if place not in self._chains:
            sets = self._sets.get(place[:2])
            if sets is None:
                sets = SetReader(self._connection, _NUMBERS[base.family], base.table)
                self._sets[place[:2]] = sets
            self._chains[place] = self._read(place, sets)
        return self._chains[place]

    def _read(self, place: tuple[str, str, str], sets: SetReader) -> list[Rule]:
        family, table, chain = place
        head = bytes([_NUMBERS[family], 0, 0, 0])
        try:
            listed = self._connection.dump(
                _GET_RULE, head + text(_RULE_TABLE, table) + text(_RULE_CHAIN, chain)
            )
        except Refused as refused:
            if refused.errno == errno.ENOENT:  # it went meanwhile
                return []
            raise
        found: list[Rule] = []
        for payload in listed:
            rule = Attributes.some(payload, 4, _RULE_PARTS)
            # Not every kernel takes the chain for more than a hint.
            if (rule.text(_RULE_TABLE), rule.text(_RULE_CHAIN)) == (table, chain):
                handle = int.from_bytes(rule.raw(_RULE_HANDLE) or b"", "big")
                found.append(NftRule(handle, rule.raw(_RULE_EXPRESSIONS) or b"", sets))
        return found


def _hooks_of(family: str) -> tuple[Hook, ...]:
    """As the kernel numbers those of a family (enum nf_dev_hooks, NF_ARP_*, enum nf_inet_hooks)."""
    if family == "netdev":
        return ("ingress", "egress")
    if family == "arp":
        return ("input", "output")
    return (*HOOKS, "ingress") if family == "inet" else HOOKS


def _devices(hook: Attributes) -> tuple[str, ...]:
    """Links that a chain is bound to. A prefix has an attribute of its own, or is a name without a zero."""
    listed = each(hook.raw(_HOOK_DEVICES) or b"")
    if not listed and _HOOK_DEVICE in hook:
        listed = [(_NAME, hook.raw(_HOOK_DEVICE) or b"")]
    found = []
    for kind, data in listed:
        name = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        is_prefix = kind == _DEVICE_PREFIX or not data.endswith(b"\0")
        found.append(f"{name}*" if is_prefix else name)
    return tuple(found)


class NftRule:
    """Of a long chain, most rules are left at their first match: what comes behind it is not even parsed."""

    def __init__(self, number: int, expressions: bytes, sets: SetReader) -> None:
        self._number = number
        self._packed: bytes | list[tuple[int, bytes]] = expressions
        self._steps: list[_Step] = []
        self._sets = sets

    @property
    def number(self) -> int:
        return self._number

    def evaluate(self, packet: Packet, marks: Marks, *, sure: bool) -> Sequence[tuple[Truth, Action]]:
        run = _Run(packet, marks, self._sets, sure=sure)
        number = 0
        while (step := self._step(number)) is not None:
            ends = step(run)
            if ends is not None:
                return ends
            if run.holds is Truth.NO:
                return ()
            number += 1
        return ()

    def _step(self, number: int) -> _Step | None:
        if number < len(self._steps):
            return self._steps[number]
        if isinstance(self._packed, bytes):
            self._packed = each(self._packed)
        if number == len(self._packed):
            return None
        self._steps.append(_compiled(self._packed[number][1]))
        return self._steps[-1]


def _compiled(expression: bytes) -> _Step:
    parsed = Attributes(expression)
    compile_ = _COMPILE.get(parsed.text(_NAME) or "", _unclear)
    try:
        return compile_(parsed.nested(_DATA) or NOTHING)
    except Malformed:
        return _unclear(NOTHING)


class _Ends(NamedTuple):
    holds: Truth
    action: Action


class _Run:
    """One rule and one packet. Registers are kept as words of four bytes."""

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
        """What is loaded there cannot be told."""
        for number in range(_word(register), min(_word(register) + 4, 16)):
            self._words[number] = _UNKNOWN


# What an expression does: None, or how the rule ends.
_Step: TypeAlias = Callable[[_Run], Sequence[_Ends] | None]


def _word(register: int) -> int:
    """NFT_REG_1 to 4 are four words each, NFT_REG32_00 to 15 the same words one by one."""
    if 1 <= register <= 4:
        return 4 * (register - 1)
    if 8 <= register <= 23:
        return register - 8
    raise Malformed(f"there is no register {register}")


def _big(found: Attributes, kind: int) -> int:
    return int.from_bytes(found.raw(kind) or b"", "big")


def _value(found: Attributes, kind: int) -> bytes:
    data = found.nested(kind)
    return (data.raw(_VALUE) if data is not None else None) or b""


def _action(data: Attributes | None) -> Action | None:
    """Of a verdict; None: the next rule."""
    verdict = data.nested(_VERDICT) if data is not None else None
    if verdict is None:
        return Action("unclear")
    code = _big(verdict, _VERDICT_CODE)
    code -= 1 << 32 if code >> 31 else 0
    chain = verdict.text(_VERDICT_CHAIN) or ""
    if code in (-3, -4):
        return Action("jump" if code == -3 else "goto", chain)
    if code == -1:
        return None
    known = {0: Action("drop"), 1: Action("accept"), -5: Action("return")}
    return known.get(code, Action("unclear"))


def _unclear(_: Attributes) -> _Step:
    """An expression that is not known here, or whose answer depends on more than the packet."""

    def step(run: _Run) -> None:
        run.holds &= Truth.UNCLEAR

    return step


def _passing(_: Attributes) -> _Step:
    return lambda _: None


def _immediate(it: Attributes) -> _Step:
    register = _big(it, 1)
    if register:
        value = Field.of(_value(it, 2))
        return lambda run: run.store(register, value)
    action = _action(it.nested(2))
    return lambda run: () if action is None else (_Ends(run.holds, action),)


def _cmp(it: Attributes) -> _Step:
    register, op, data = _big(it, 1), _big(it, 2), _value(it, 3)
    size, wanted = len(data), int.from_bytes(data, "big")
    low, high = {2: (0, wanted - 1), 3: (0, wanted), 4: (wanted + 1, _top(size))}.get(
        op, (wanted, _top(size))
    )

    def step(run: _Run) -> None:
        found = run.load(register, size)
        if op > 1:
            run.holds &= found.within(low, high)
        else:
            run.holds &= ~found.equals(wanted) if op else found.equals(wanted)

    return step


def _top(size: int) -> int:
    return (1 << 8 * size) - 1


def _range(it: Attributes) -> _Step:
    register, op, first, last = _big(it, 1), _big(it, 2), _value(it, 3), _value(it, 4)
    low, high = int.from_bytes(first, "big"), int.from_bytes(last, "big")

    def step(run: _Run) -> None:
        holds = run.load(register, len(first)).within(low, high)
        run.holds &= ~holds if op else holds

    return step


def _bitwise(it: Attributes) -> _Step:
    source, target, mask, xor = _big(it, 1), _big(it, 2), _value(it, 4), _value(it, 5)
    if _big(it, 6) or len(mask) != _big(it, 3):  # shifts, and operations on two registers
        return lambda run: run.forget(target)
    size, kept, turned = len(mask), int.from_bytes(mask, "big"), int.from_bytes(xor, "big")
    return lambda run: run.store(target, run.load(source, size).masked(kept, turned))


def _byteorder(it: Attributes) -> _Step:
    source, target, size, unit = _big(it, 1), _big(it, 2), _big(it, 4), _big(it, 5)
    return lambda run: run.store(target, run.load(source, size).swapped(unit or size))


def _payload(it: Attributes) -> _Step:
    if 5 in it:  # which writes
        return _passing(it)
    register, base, offset, size = _big(it, 1), _big(it, 2), _big(it, 3), _big(it, 4)
    if base == 0:
        return lambda run: run.store(register, run.packet.link_header.part(offset, size))
    if base == 1:
        return lambda run: run.store(register, run.packet.network_header.part(offset, size))
    if base == 2:

        def transport(run: _Run) -> None:
            if run.packet.arp is not None:  # which has no such header
                run.holds = Truth.NO
            else:
                run.store(register, run.packet.transport_header.part(offset, size))

        return transport
    return lambda run: run.store(register, Field.open(size))


def _name(link: Link | None) -> Field:
    return Field.of((link.name if link else "").encode().ljust(16, b"\0"))


def _index(link: Link | None) -> Field:
    return Field.number(link.index if link else 0)


def _kind(link: Link | None) -> Field:
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


def _meta(it: Attributes) -> _Step:
    register, key, source = _big(it, 1), _big(it, 2), _big(it, 3)
    if 3 in it:
        if key != _META_MARK:
            return _passing(it)
        return lambda run: run.marks.set_packet(run.load(source, 4), sure=run.is_sure)
    if key == _META_MARK:
        return lambda run: run.store(register, run.marks.packet)
    read = _META.get(key)

    def load(run: _Run) -> None:
        if key == _META_L4PROTO and run.packet.arp is not None:
            run.holds = Truth.NO
        elif read is not None:
            run.store(register, read(run.packet))

    if read is not None:
        return load

    def step(run: _Run) -> None:
        # Users, groups and cgroups are of a socket, which nothing that is forwarded has.
        if key in _META_OF_SOCKET and run.packet.hook == "forward":
            run.holds = Truth.NO
        else:
            run.store(register, _OPEN)

    return step


# enum nft_ct_keys.
_CT_STATE, _CT_DIRECTION, _CT_STATUS, _CT_MARK, _CT_PROTOCOL = 0, 1, 2, 3, 10


def _ct(it: Attributes) -> _Step:
    register, key, source = _big(it, 1), _big(it, 2), _big(it, 4)
    if 4 in it:
        if key != _CT_MARK:
            return _passing(it)

        def write(run: _Run) -> None:
            if run.packet.has_connection and not run.marks.is_untracked:
                run.marks.set_connection(run.load(source, 4), sure=run.is_sure)

        return write

    def step(run: _Run) -> None:
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


def _lookup(it: Attributes) -> _Step:
    name, source, target, is_inverted = it.text(1) or "", _big(it, 2), _big(it, 3), bool(_big(it, 5) & 1)

    def found(run: _Run) -> list[Found]:
        size = run.sets.key_size(name) or 64 - 4 * _word(source)
        return run.sets.find(name, run.load(source, size))

    def member(run: _Run) -> None:
        holds = Truth.NO
        for one in found(run):
            holds |= one.holds
        run.holds &= ~holds if is_inverted else holds

    def verdict(run: _Run) -> Sequence[_Ends]:
        """Of a named map that cannot be asked for one key, nobody knows where it leads."""
        actions = [
            (one.holds, _action(one.data) if one.data is not None else Action("unclear"))
            for one in found(run)
        ]
        return [_Ends(run.holds & holds, action) for holds, action in actions if action is not None]

    def value(run: _Run) -> None:
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


def _fib(it: Attributes) -> _Step:
    register, result, flags = _big(it, 1), _big(it, 2), _big(it, 3)

    def step(run: _Run) -> None:
        packet = run.packet
        if result == _FIB_TYPE:
            of_source = flags & _FIB_OF_SOURCE
            run.store(register, Field.number(packet.source_type if of_source else packet.destination_type))
        elif flags & _FIB_PRESENT:
            run.store(register, Field.number(1))
        elif flags & _FIB_OF_SOURCE and packet.iif is not None:
            # Containers, and what is outside, are reached by the links that they send by.
            run.store(register, _index(packet.iif) if result == _FIB_INDEX else _name(packet.iif))
        else:
            run.forget(register)

    return step


def _reject(_: Attributes) -> _Step:
    return lambda run: (_Ends(run.holds, Action("drop")),)


def _queue(_: Attributes) -> _Step:
    return lambda run: (_Ends(run.holds, Action("unclear")),)


def _match(it: Attributes) -> _Step:
    name, revision, data = it.text(1) or "", _big(it, 2), it.raw(3) or b""

    def step(run: _Run) -> None:
        run.holds &= xt.matches(name, revision, data, run.packet, run.marks)

    return step


def _target(it: Attributes) -> _Step:
    name, revision, data = it.text(1) or "", _big(it, 2), it.raw(3) or b""

    def step(run: _Run) -> Sequence[_Ends]:
        action = xt.target(name, revision, data, run.packet, run.marks, sure=run.is_sure)
        return () if action is None else (_Ends(run.holds, action),)

    return step


def _notrack(_: Attributes) -> _Step:
    def step(run: _Run) -> None:
        if run.is_sure and not run.packet.is_tracked:
            run.marks.is_untracked = True

    return step


def _dynset(it: Attributes) -> _Step:
    """Adds to a set; with a limit in it, it also matches."""
    return _unclear(it) if 7 in it or 10 in it else _passing(it)


def _objref(it: Attributes) -> _Step:
    """Counters and helpers, which pass; and quotas and limits, which match."""
    return _unclear(it) if _big(it, 1) in (2, 4, 5) or 1 not in it else _passing(it)


def _loads_something(it: Attributes) -> _Step:
    register = _big(it, 1)
    return (lambda run: run.forget(register)) if 1 in it else _unclear(it)


_COMPILE: Mapping[str, Callable[[Attributes], _Step]] = {
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
