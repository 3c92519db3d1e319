"""Tables of iptables-legacy, which packets pass beside nftables rules. `nft list` does not show them."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from struct import Struct
from typing import Literal

from msgspec import Struct as Record

from . import xt
from .field import Field, Truth, truth
from .packet import HOOKS, Marks, Packet
from .rules import Action, BaseChain, FirewallRule

# IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES; IPv6 has the same numbers.
_GET_INFO, _GET_ENTRIES = 64, 65
# struct ipt_getinfo: name, the hooks of the table, the offset of each hook's chain, the offset of its policy,
# the number of entries, and their size.
_INFO = Struct("=32sI5I5III")
_HEAD = Struct("=32sI4x")  # struct ipt_get_entries, up to its entries
_OFFSETS = Struct("=HH")  # of an entry: the offset of its target, and of the next entry
_EXTENSION = Struct("=H29sB")  # struct xt_entry_match: size, name, revision
_VERDICT = Struct("=i")
_DROP, _ACCEPT, _RETURN = -1, -2, -5
_PRIORITIES = {"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}

_libc = ctypes.CDLL(None, use_errno=True)


class _Family(Record, frozen=True):
    """`offsets` is where an entry has its target's offset, `size` is its size (ipt_entry, ip6t_entry)."""

    name: str
    names: str
    family: int
    level: int
    address: int
    offsets: int
    size: int
    goto: int


_FAMILIES = (
    _Family(
        "ip", "/proc/thread-self/net/ip_tables_names", socket.AF_INET, socket.IPPROTO_IP, 4, 88, 112, 0x2
    ),
    _Family(
        "ip6",
        "/proc/thread-self/net/ip6_tables_names",
        socket.AF_INET6,
        socket.IPPROTO_IPV6,
        16,
        140,
        168,
        0x4,
    ),
)


class LegacyTable(Record, frozen=True):
    """`rules` counts the rules beyond those of every table; None if the kernel does not say."""

    family: str
    name: str
    rules: int | None


def tables() -> list[LegacyTable]:
    """Returns the tables of this process's namespace. An empty table that accepts everything has no rules."""
    return [LegacyTable(it.name, name, _count(it, name)) for it in _FAMILIES for name in _names(it.names)]


class LegacyTables:
    """The tables of the namespace of the calling thread's process. `bases` reads all of them."""

    def __init__(self) -> None:
        self._chains: dict[tuple[str, str], dict[str, list[FirewallRule]]] = {}

    def bases(self) -> list[BaseChain]:
        found: list[BaseChain] = []
        for family in _FAMILIES:
            for name in _names(family.names):
                if name == "nat":
                    continue
                try:
                    bases, chains = _read(family, name)
                except OSError:
                    continue
                self._chains[family.name, name] = chains
                found += bases
        return found

    def rules(self, base: BaseChain, chain: str) -> Sequence[FirewallRule]:
        return self._chains.get((base.family, base.table), {}).get(chain, ())


class LegacyRule:
    def __init__(self, number: int, family: _Family, entry: bytes, action: Action | None) -> None:
        self._number = number
        self._family = family
        self._entry = entry
        # Of a target that is a verdict or a chain.
        self._action = action

    @property
    def number(self) -> int:
        return self._number

    def evaluate(self, packet: Packet, marks: Marks, *, sure: bool) -> Sequence[tuple[Truth, Action]]:
        holds = _matches(self._family, self._entry, packet)
        target, _ = _OFFSETS.unpack_from(self._entry, self._family.offsets)
        place = self._family.size
        while place < target and holds is not Truth.NO:
            size, name, revision = _EXTENSION.unpack_from(self._entry, place)
            if size < _EXTENSION.size:
                return ()
            data = self._entry[place + 32 : place + size]
            holds &= xt.matches(_text(name), revision, data, packet, marks)
            place += size
        if holds is Truth.NO:
            return ()
        _, name, revision = _EXTENSION.unpack_from(self._entry, target)
        if not _text(name):
            return () if self._action is None else ((holds, self._action),)
        data = self._entry[target + 32 :]
        is_sure = sure and holds is Truth.YES
        action = xt.target(_text(name), revision, data, packet, marks, sure=is_sure)
        return () if action is None else ((holds, action),)


def _matches(family: _Family, entry: bytes, packet: Packet) -> Truth:
    """Evaluates the matches of every rule: addresses, links, protocol."""
    size = family.address
    source, destination, source_mask, destination_mask = (
        int.from_bytes(entry[at : at + size], "big") for at in range(0, 4 * size, size)
    )
    links = 4 * size
    if family.name == "ip":
        proto, flags, inverted = struct.unpack_from("=HBB", entry, links + 64)
        wants_protocol = proto != 0
    else:
        proto, _, flags, inverted = struct.unpack_from("=HBBB", entry, links + 64)
        wants_protocol = bool(flags & 0x1)
    result = _link(packet.iif.name if packet.iif else "", entry[links:], inverted & 0x1)
    result &= _link(packet.oif.name if packet.oif else "", entry[links + 16 :], inverted & 0x2)
    for field, wanted, mask, bit in (
        (packet.source, source, source_mask, 0x8),
        (packet.destination, destination, destination_mask, 0x10),
    ):
        holds = field.masked(mask).equals(wanted)
        result &= ~holds if inverted & bit else holds
    if wants_protocol:
        holds = truth(proto == packet.protocol)
        result &= ~holds if inverted & 0x40 else holds
    if family.name == "ip" and flags & 0x1:  # fragments after the first
        result &= truth(bool(inverted & 0x20))
    return result


def _link(name: str, wanted: bytes, inverted: int) -> Truth:
    """Reads a link name and its mask, which is 32 bytes behind it. For `loom+`, the mask omits the last
    character.
    """
    pattern, mask = int.from_bytes(wanted[:16], "big"), int.from_bytes(wanted[32:48], "big")
    holds = Field.of(name.encode().ljust(16, b"\0")).masked(mask).equals(pattern & mask)
    return ~holds if inverted else holds


def _read(family: _Family, name: str) -> tuple[list[BaseChain], dict[str, list[FirewallRule]]]:
    packed = name.encode()
    with _asker(family) as asker:
        info = _asked(asker, family.level, _GET_INFO, _INFO.pack(packed, *(0 for _ in range(13))))
        _, hooks, *numbers, _entries, size = _INFO.unpack(info)
        content = _asked(asker, family.level, _GET_ENTRIES, _HEAD.pack(packed, size) + bytes(size))
    entries = content[_HEAD.size :]
    begins, policies = numbers[:5], numbers[5:]
    own = {begins[number]: hook.upper() for number, hook in enumerate(HOOKS) if hooks & 1 << number}
    ends = {policies[number] for number in range(5) if hooks & 1 << number}
    placed = _split(family, entries)
    heads = {**own, **_named(family, entries, placed)}
    chains: dict[str, list[FirewallRule]] = {chain: [] for chain in heads.values()}
    current: list[FirewallRule] = []
    for start, end in placed:
        entry = entries[start:end]
        if start in heads:
            current = chains[heads[start]]
        target, _ = _OFFSETS.unpack_from(entry, family.offsets)
        if _text(_EXTENSION.unpack_from(entry, target)[1]) == "ERROR" or start in ends:
            continue
        current.append(
            LegacyRule(len(current) + 1, family, entry, _action(family, entry, target, end, heads))
        )
    bases = [
        BaseChain(
            backend="legacy",
            family=family.name,
            table=name,
            name=hook.upper(),
            hook=hook,
            priority=_PRIORITIES.get(name, 0),
            policy=_policy(family, entries, policies[number]),
        )
        for number, hook in enumerate(HOOKS)
        if hooks & 1 << number
    ]
    return bases, chains


def _split(family: _Family, entries: bytes) -> list[tuple[int, int]]:
    found, start = [], 0
    while start + family.size <= len(entries):
        _, size = _OFFSETS.unpack_from(entries, start + family.offsets)
        if size < family.size:
            break
        found.append((start, start + size))
        start += size
    return found


def _named(family: _Family, entries: bytes, placed: Sequence[tuple[int, int]]) -> dict[int, str]:
    """Returns the user-defined chains: each begins with an entry that has its name."""
    found = {}
    for start, end in placed:
        target, _ = _OFFSETS.unpack_from(entries, start + family.offsets)
        if _text(_EXTENSION.unpack_from(entries, start + target)[1]) == "ERROR":
            found[end] = _text(entries[start + target + 32 : start + target + 62])
    return found


def _action(family: _Family, entry: bytes, target: int, end: int, heads: dict[int, str]) -> Action | None:
    if _text(_EXTENSION.unpack_from(entry, target)[1]):
        return None
    (verdict,) = _VERDICT.unpack_from(entry, target + 32)
    if verdict >= 0:
        if verdict == end:
            return None
        flags = entry[4 * family.address + 64 + (2 if family.name == "ip" else 3)]
        chain = heads.get(verdict)
        return Action("goto" if flags & family.goto else "jump", chain) if chain else Action("unclear")
    known = {_DROP: Action("drop"), _ACCEPT: Action("accept"), _RETURN: Action("return")}
    return known.get(verdict, Action("unclear"))


def _policy(family: _Family, entries: bytes, start: int) -> Literal["accept", "drop"]:
    target, _ = _OFFSETS.unpack_from(entries, start + family.offsets)
    (verdict,) = _VERDICT.unpack_from(entries, start + target + 32)
    return "drop" if verdict == _DROP else "accept"


def _count(family: _Family, name: str) -> int | None:
    try:
        with _asker(family) as asker:
            info = _asked(asker, family.level, _GET_INFO, _INFO.pack(name.encode(), *(0 for _ in range(13))))
    except OSError:
        return None
    _, hooks, *_, entries, _ = _INFO.unpack(info)
    return int(entries) - int(hooks).bit_count() - 1


def _names(path: str) -> list[str]:
    try:
        with open(path) as file:
            return sorted(file.read().split())
    except OSError:
        return []


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _asker(family: _Family) -> socket.socket:
    return socket.socket(family.family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.IPPROTO_RAW)


def _asked(asker: socket.socket, level: int, option: int, question: bytes) -> bytes:
    """Calls getsockopt with one buffer for query and answer, which Python's own function cannot do."""
    place = ctypes.create_string_buffer(question, len(question))
    length = ctypes.c_uint32(len(question))
    if _libc.getsockopt(asker.fileno(), level, option, place, ctypes.byref(length)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not say")
    return place.raw[: length.value]
