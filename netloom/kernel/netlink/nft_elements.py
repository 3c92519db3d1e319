"""Elements of nftables sets and maps: reads one, some or all of them, adds and deletes them.

libnftables answers a query about one element by loading all elements (240 ms for 50,000). The kernel itself
answers in 0.03 ms, and adds an element in 0.05 ms where the library needs 0.2.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct as Record

from ..errors import Refused
from .connection import NetlinkConnection
from .message import CREATE, EXCLUSIVE, Attributes, each, nested, text
from .message import raw as attribute
from .nft_types import NftType, forms_named, forms_of, pack, show
from .nftables import (
    GET_ELEMENT,
    LIST_ELEMENTS,
    SUBSYSTEM,
    answer_to,
    big,
    element_list,
    set_attributes,
    transact,
)

NEW_ELEMENT, DELETE_ELEMENT = SUBSYSTEM | 12, SUBSYSTEM | 14
_SET_FLAGS, _SET_KEY_TYPE, _SET_DATA_TYPE = 3, 4, 6
_INTERVAL = 0x4
_VERDICT_TYPE = 0xFFFFFF00
_ITEM = 1
_VALUE, _VERDICT = 1, 2
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_VERDICTS = {0: "drop", 1: "accept", -1: "continue", -3: "jump", -4: "goto", -5: "return"}
_EXPRESSION_NAME, _EXPRESSION_DATA, _COUNTER_BYTES, _COUNTER_PACKETS = 1, 2, 1, 2
_ELEMENT_KEY, _ELEMENT_DATA, _ELEMENT_EXPIRATION, _ELEMENT_EXPRESSION = 1, 2, 5, 7


class Set(Record, frozen=True):
    """The types of a set's keys, and of its values if it is a map. None: a type unknown to netloom."""

    key: tuple[NftType, ...] | None
    value: tuple[NftType, ...] | None
    verdicts: bool
    interval: bool
    is_map: bool


class Element(Record, frozen=True):
    value: tuple[str, ...] | None = None
    verdict: str | None = None


_NO_DATA = Element()


def read_set(connection: NetlinkConnection, family: str, table: str, name: str) -> Set | None:
    found = set_attributes(connection, family, table, name)
    if found is None:
        return None
    data_type = big(found, _SET_DATA_TYPE)
    return Set(
        key=forms_of(big(found, _SET_KEY_TYPE)),
        value=None if data_type in (0, _VERDICT_TYPE) else forms_of(data_type),
        verdicts=data_type == _VERDICT_TYPE,
        interval=bool(big(found, _SET_FLAGS) & _INTERVAL),
        is_map=data_type != 0,
    )


def plain_set(types: str) -> Set | None:
    """Returns a set with keys of types that nft writes as `ifname . ipv4_addr`; None if one is unknown."""
    forms = forms_named(types)
    if forms is None:
        return None
    return Set(key=forms, value=None, verdicts=False, interval=False, is_map=False)


def read_element(
    connection: NetlinkConnection, family: str, table: str, name: str, of: Set, key: Sequence[str]
) -> Element | None:
    """Returns the element of a set with a key; None if there is no such element or set."""
    question = element_list(family, table, name, _key(pack(of.key or (), key)))
    answer = answer_to(connection, GET_ELEMENT, question)
    if answer is None:
        return None
    listed = Attributes(answer[4:]).raw(LIST_ELEMENTS) or b""
    for _, element in each(listed):
        data = Attributes(element).nested(_ELEMENT_DATA)
        return _NO_DATA if data is None else _decoded(data, of)
    return None


def are_there(connection: NetlinkConnection, items: Sequence[Item]) -> bool:
    """Says whether all elements exist exactly so, in one query: a third of the cost of one query each."""
    for batch in _batches(items, longest=_ANSWERS):
        wanted = {item.key: item.data for item in batch}
        question = element_list(*batch[0].place, *map(_key, wanted))
        try:
            answers = connection.ask_for_several(GET_ELEMENT, question)
        except Refused as refused:
            if refused.errno == errno.ENOENT:
                return False
            raise
        for answer in answers:
            for _, element in each(Attributes(answer[4:]).raw(LIST_ELEMENTS) or b""):
                parts = Attributes(element)
                key = Attributes(parts.raw(_ELEMENT_KEY) or b"").raw(_VALUE) or b""
                if wanted.get(key) == (parts.raw(_ELEMENT_DATA) or b""):
                    del wanted[key]
        if wanted:
            return False
    return True


def read_elements(
    connection: NetlinkConnection, family: str, table: str, name: str
) -> dict[tuple[str, ...], Element] | None:
    """Returns all elements of a set, by key; None if there is no such set, or if its types are unknown.

    Use this to compare many elements; for one, query that element.
    """
    of = read_set(connection, family, table, name)
    if of is None or of.key is None or of.interval or (of.is_map and of.value is None and not of.verdicts):
        return None
    listed = _listed(connection, family, table, name)
    if listed is None:
        return None
    found: dict[tuple[str, ...], Element] = {}
    for parts in listed:
        key, data = parts.nested(_ELEMENT_KEY), parts.nested(_ELEMENT_DATA)
        if key is not None:
            found[show(of.key, key.raw(_VALUE) or b"")] = _NO_DATA if data is None else _decoded(data, of)
    return found


def _listed(connection: NetlinkConnection, family: str, table: str, name: str) -> list[Attributes] | None:
    """The elements of a set; None if there is no such set."""
    try:
        listed = connection.dump(GET_ELEMENT, element_list(family, table, name))
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise
    return [
        Attributes(element)
        for payload in listed
        for _, element in each(Attributes(payload[4:]).raw(LIST_ELEMENTS) or b"")
    ]


class Counted(Record, frozen=True):
    """How many packets matched an element, and in how many milliseconds it expires without another."""

    packets: int
    bytes: int
    expires: int


def read_counted(
    connection: NetlinkConnection, family: str, table: str, name: str
) -> dict[tuple[str, ...], Counted] | None:
    """Returns the counting elements of a set by key; None if there is no such set, or a type is unknown."""
    of = read_set(connection, family, table, name)
    if of is None or of.key is None or of.interval:
        return None
    listed = _listed(connection, family, table, name)
    if listed is None:
        return None
    found: dict[tuple[str, ...], Counted] = {}
    for parts in listed:
        key, expression = parts.nested(_ELEMENT_KEY), parts.nested(_ELEMENT_EXPRESSION)
        if key is None or expression is None or expression.text(_EXPRESSION_NAME) != "counter":
            continue
        counter = expression.nested(_EXPRESSION_DATA) or Attributes(b"")
        found[show(of.key, key.raw(_VALUE) or b"")] = Counted(
            packets=_long(counter, _COUNTER_PACKETS),
            bytes=_long(counter, _COUNTER_BYTES),
            expires=_long(parts, _ELEMENT_EXPIRATION),
        )
    return found


class Item(NamedTuple):
    """An element as the kernel stores it: its set, its key, and the value for it, or None."""

    place: tuple[str, str, str]  # family, table, set
    key: bytes
    data: bytes = b""

    @property
    def packed(self) -> bytes:
        return _key(self.key, nested(_ELEMENT_DATA, self.data) if self.data else b"")


_VERDICT_CODES = {word: code for code, word in _VERDICTS.items()}


def data_of(of: Set, value: Sequence[str] | None, verdict: str | None) -> bytes:
    """Returns a map's value for a key, byte for byte as the kernel sends it: the nest of a verdict has no
    flag.
    """
    if verdict is not None:
        word, _, chain = verdict.partition(" ")
        code = attribute(_VERDICT_CODE, (_VERDICT_CODES[word] & 0xFFFFFFFF).to_bytes(4, "big"))
        return attribute(_VERDICT, code + (text(_VERDICT_CHAIN, chain) if chain else b""))
    return b"" if value is None else attribute(_VALUE, pack(of.value or (), value))


def _key(key: bytes, data: bytes = b"") -> bytes:
    return nested(_ITEM, nested(_ELEMENT_KEY, attribute(_VALUE, key)), data)


# An attribute's length has 16 bits, and no element needs more than 400 bytes.
_ELEMENTS = 150


# Each answer takes 768 bytes of the socket's buffer of 208 KiB.
_ANSWERS = 64


def _batches(items: Sequence[Item], longest: int) -> Iterator[list[Item]]:
    """Yields the elements by set, a limited number at a time."""
    by_place: dict[tuple[str, str, str], list[Item]] = {}
    for item in items:
        by_place.setdefault(item.place, []).append(item)
    for some in by_place.values():
        for start in range(0, len(some), longest):
            yield some[start : start + longest]


def change_elements(connection: NetlinkConnection, kind: int, items: Sequence[Item]) -> None:
    """Adds or deletes elements, all or none. Elements to add must not exist, and elements to delete must
    exist.

    Raises the first `Refused`.
    """
    flags = CREATE | EXCLUSIVE if kind == NEW_ELEMENT else 0
    batches = _batches(items, longest=_ELEMENTS)
    transact(
        connection,
        [(kind, flags, element_list(*batch[0].place, *(item.packed for item in batch))) for batch in batches],
    )


def _decoded(data: Attributes, of: Set) -> Element:
    verdict = data.nested(_VERDICT)
    if verdict is not None:
        code = big(verdict, _VERDICT_CODE)
        words = _VERDICTS.get(code - (1 << 32) if code >> 31 else code, str(code))
        chain = verdict.text(_VERDICT_CHAIN)
        return Element(verdict=f"{words} {chain}" if chain else words)
    return Element(value=show(of.value or (), data.raw(_VALUE) or b""))


def _long(found: Attributes, kind: int) -> int:
    return int.from_bytes(found.raw(kind) or b"", "big")
