"""Sets and maps in which nftables rules look up a key."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import Refused
from ..netlink.connection import NetlinkConnection
from ..netlink.message import Attributes, each, nested, raw, text
from .field import Field, Truth

_GET_SET, _GET_ELEMENT = 10 << 8 | 10, 10 << 8 | 13
_TABLE, _NAME, _FLAGS, _KEY_LENGTH, _DESCRIPTION = 1, 2, 3, 5, 9
_CONCAT, _CONCAT_FIELD, _FIELD_LENGTH = 2, 1, 1
_ELEMENTS, _ITEM = 3, 1
_KEY, _DATA, _ELEMENT_FLAGS, _KEY_END = 1, 2, 3, 10
_VALUE = 1
_ANONYMOUS, _INTERVAL = 0x1, 0x4
_IS_END, _IS_CATCHALL = 0x1, 0x2


class SetLookup(NamedTuple):
    """Whether a key is an element, and the value that a map has for it."""

    holds: Truth
    data: Attributes | None


class _Element(NamedTuple):
    """The keys from `low` to `high`; in a key of several parts, each part has its own bounds."""

    low: bytes
    high: bytes
    data: Attributes | None


class SetReader:
    """Reads the sets of one table. A named set may be huge, so it is queried by key and never read whole."""

    def __init__(self, connection: NetlinkConnection, family: int, table: str) -> None:
        self._connection = connection
        self._head = bytes([family, 0, 0, 0])
        self._table = table
        self._known: dict[str, Attributes | None] = {}
        self._elements: dict[str, tuple[list[_Element], Attributes | None]] = {}

    def find(self, name: str, key: Field) -> list[SetLookup]:
        """Returns the elements that a key may match, a certain match last; empty if there is no match."""
        described = self._described(name)
        if described is None:
            return [SetLookup(Truth.UNCLEAR, None)]
        flags = int.from_bytes(described.raw(_FLAGS) or b"", "big")
        if flags & _ANONYMOUS:
            return self._among(name, described, key, is_interval=bool(flags & _INTERVAL))
        if key.is_known:
            found = self._asked(name, key.low)
            return [] if found is None else [SetLookup(Truth.YES, found.nested(_DATA))]
        return self._around(name, key, flags)

    def key_size(self, name: str) -> int:
        """Returns the size of the key in bytes; 0 if there is no such set."""
        described = self._described(name)
        return 0 if described is None else int.from_bytes(described.raw(_KEY_LENGTH) or b"", "big")

    def _around(self, name: str, key: Field, flags: int) -> list[SetLookup]:
        """Looks up the first and the last possible key: if one interval contains both, all keys between
        match.
        """
        low = self._asked(name, key.low)
        if low is not None and flags & _INTERVAL and not _parts(self._described(name)):
            high = self._asked(name, key.high)
            if high is not None and high.raw(_KEY) == low.raw(_KEY):
                return [SetLookup(Truth.YES, low.nested(_DATA))]
        return [SetLookup(key.unsure, None)]

    def _described(self, name: str) -> Attributes | None:
        if name not in self._known:
            question = self._head + text(_TABLE, self._table) + text(_NAME, name)
            try:
                answer = self._connection.ask(_GET_SET, question)
            except Refused as refused:
                if refused.errno != errno.ENOENT:
                    raise
                answer = None
            self._known[name] = None if answer is None else Attributes(answer[4:])
        return self._known[name]

    def _asked(self, name: str, key: int) -> Attributes | None:
        packed = key.to_bytes(self.key_size(name), "big")
        element = nested(_ITEM, nested(_KEY, raw(_VALUE, packed)))
        question = self._head + text(_TABLE, self._table) + text(_NAME, name) + nested(_ELEMENTS, element)
        try:
            answer = self._connection.ask(_GET_ELEMENT, question)
        except Refused as refused:
            if refused.errno == errno.ENOENT:
                return None
            raise
        for _, found in each((answer and Attributes(answer[4:]).raw(_ELEMENTS)) or b""):
            return Attributes(found)
        return None

    def _among(self, name: str, described: Attributes, key: Field, *, is_interval: bool) -> list[SetLookup]:
        elements, otherwise = self._listed(name, is_interval=is_interval)
        parts = _parts(described)
        found: list[SetLookup] = []
        for it in elements:
            holds = _compared(key, it, parts)
            if holds is Truth.YES:
                return [*found, SetLookup(Truth.YES, it.data)]
            if holds is not Truth.NO:
                found.append(SetLookup(holds, it.data))
        return found if otherwise is None else [*found, SetLookup(Truth.YES, otherwise)]

    def _listed(self, name: str, *, is_interval: bool) -> tuple[list[_Element], Attributes | None]:
        if name not in self._elements:
            question = self._head + text(_TABLE, self._table) + text(_NAME, name)
            parsed = [
                Attributes(element)
                for payload in self._connection.dump(_GET_ELEMENT, question)
                for _, element in each(Attributes(payload[4:]).raw(_ELEMENTS) or b"")
            ]
            self._elements[name] = _elements_of(parsed, is_interval=is_interval)
        return self._elements[name]


def _elements_of(
    parsed: Sequence[Attributes], *, is_interval: bool
) -> tuple[list[_Element], Attributes | None]:
    """Returns the elements, with the one for all other keys."""
    otherwise = None
    plain: list[_Element] = []
    borders: list[tuple[bytes, bool, Attributes | None]] = []
    for it in parsed:
        flags = int.from_bytes(it.raw(_ELEMENT_FLAGS) or b"", "big")
        data = it.nested(_DATA)
        if flags & _IS_CATCHALL:
            otherwise = data
            continue
        key, end = _key_of(it, _KEY), _key_of(it, _KEY_END)
        if end:
            plain.append(_Element(key, end, data))
        elif is_interval:
            borders.append((key, not flags & _IS_END, data))
        else:
            plain.append(_Element(key, key, data))
    borders.sort(key=lambda it: it[:2])
    for number, (key, is_start, data) in enumerate(borders):
        if is_start:
            after = borders[number + 1][0] if number + 1 < len(borders) else None
            plain.append(_Element(key, _before(after, len(key)), data))
    return plain, otherwise


def _key_of(element: Attributes, kind: int) -> bytes:
    found = element.nested(kind)
    return (found.raw(_VALUE) if found is not None else None) or b""


def _before(key: bytes | None, size: int) -> bytes:
    return b"\xff" * size if key is None else (int.from_bytes(key, "big") - 1).to_bytes(size, "big")


def _parts(described: Attributes | None) -> list[int]:
    """Returns the part sizes of a key whose parts have their own bounds; empty if it is one number."""
    description = described.nested(_DESCRIPTION) if described is not None else None
    listed = description.raw(_CONCAT) if description is not None else None
    return [
        int.from_bytes(Attributes(part).raw(_FIELD_LENGTH) or b"", "big") for _, part in each(listed or b"")
    ]


def _compared(key: Field, element: _Element, parts: Sequence[int]) -> Truth:
    if element.low == element.high:
        return key.part(0, len(element.low)).equals(int.from_bytes(element.low, "big"))
    if not parts:
        size = len(element.low)
        return key.part(0, size).within(
            int.from_bytes(element.low, "big"), int.from_bytes(element.high, "big")
        )
    result, start = Truth.YES, 0
    for size in parts:
        low, high = (int.from_bytes(end[start : start + size], "big") for end in (element.low, element.high))
        result &= key.part(start, size).within(low, high)
        start += size + 3 & ~3
    return result
