"""Attributes: the length-kind-value records that netlink messages are made of.

Building is plain functions that return bytes; parsing gives `Attributes`, whose readers check sizes.
What the kernel sends is never trusted to be well formed: a wrong size is `Malformed`, not a crash.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from struct import Struct
from typing import Self

from ..errors import Malformed

_HEADER = Struct("=HH")
_U8 = Struct("=HHB3x")
_U16 = Struct("=HHH2x")
_U16BE = Struct("=HH2s2x")
_U32 = Struct("=HHI")
_S32 = Struct("=HHi")
_U64 = Struct("=HHQ")

NESTED = 0x8000
_KIND = 0x3FFF  # without the flags for nesting and byte order


def raw(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return _HEADER.pack(length, kind) + payload + bytes(-length & 3)


def u8(kind: int, value: int) -> bytes:
    return _U8.pack(5, kind, value)


def u16(kind: int, value: int) -> bytes:
    return _U16.pack(6, kind, value)


def u16be(kind: int, value: int) -> bytes:
    return _U16BE.pack(6, kind, value.to_bytes(2, "big"))


def u32(kind: int, value: int) -> bytes:
    return _U32.pack(8, kind, value)


def s32(kind: int, value: int) -> bytes:
    return _S32.pack(8, kind, value)


def u64(kind: int, value: int) -> bytes:
    return _U64.pack(12, kind, value)


def text(kind: int, value: str) -> bytes:
    return raw(kind, value.encode() + b"\0")


def nested(kind: int, *parts: bytes) -> bytes:
    return raw(kind | NESTED, b"".join(parts))


class Attributes:
    """What one message or nest holds, by kind. Of a kind that stands there twice, the last counts.

    >>> parsed = Attributes(u32(4, 1500) + text(3, "eth0"))
    >>> parsed.u32(4), parsed.text(3), parsed.u32(13)
    (1500, 'eth0', None)
    """

    __slots__ = ("_found",)

    def __init__(self, data: bytes) -> None:
        self._found = dict(each(data))

    @classmethod
    def some(cls, data: bytes, start: int, kinds: Collection[int]) -> Self:
        """The first of each kind, read no further than to the last of them: for thousands of messages."""
        self = cls.__new__(cls)
        found: dict[int, bytes] = {}
        self._found = found
        position, end = start, len(data)
        while end - position >= 4 and len(found) < len(kinds):
            length, kind = _HEADER.unpack_from(data, position)
            if length < 4 or position + length > end:
                raise Malformed(f"attribute {kind & _KIND} claims {length} of {end - position} bytes")
            if kind & _KIND in kinds:
                found.setdefault(kind & _KIND, data[position + 4 : position + length])
            position += (length + 3) & ~3
        return self

    def __contains__(self, kind: int) -> bool:
        return kind in self._found

    def kinds(self) -> frozenset[int]:
        return frozenset(self._found)

    def raw(self, kind: int) -> bytes | None:
        return self._found.get(kind)

    def u8(self, kind: int) -> int | None:
        return self._number(kind, 1)

    def u16(self, kind: int) -> int | None:
        return self._number(kind, 2)

    def u32(self, kind: int) -> int | None:
        return self._number(kind, 4)

    def s32(self, kind: int) -> int | None:
        value = self._number(kind, 4)
        return value if value is None or value < 1 << 31 else value - (1 << 32)

    def u64(self, kind: int) -> int | None:
        return self._number(kind, 8)

    def text(self, kind: int) -> str | None:
        data = self._found.get(kind)
        return None if data is None else data.partition(b"\0")[0].decode("utf-8", "surrogateescape")

    def mac(self, kind: int) -> str | None:
        data = self._found.get(kind)
        return None if data is None else data.hex(":")

    def ip(self, kind: int) -> str | None:
        data = self._found.get(kind)
        return None if data is None else ip_text(data)

    def nested(self, kind: int) -> Attributes | None:
        data = self._found.get(kind)
        return None if data is None else Attributes(data)

    def _number(self, kind: int, size: int) -> int | None:
        data = self._found.get(kind)
        if data is None:
            return None
        if len(data) != size:
            raise Malformed(f"attribute {kind} has {len(data)} bytes, not {size}")
        return int.from_bytes(data, "little" if _LITTLE else "big")


_LITTLE = Struct("=H").pack(1) == b"\x01\x00"


def each(data: bytes) -> list[tuple[int, bytes]]:
    """All attributes in their order, for lists in which a kind may come often."""
    found = []
    position, end = 0, len(data)
    while end - position >= 4:
        length, kind = _HEADER.unpack_from(data, position)
        if length < 4 or position + length > end:
            raise Malformed(f"attribute {kind & _KIND} claims {length} of {end - position} bytes")
        found.append((kind & _KIND, data[position + 4 : position + length]))
        position += (length + 3) & ~3
    return found


def ip_text(data: bytes) -> str:
    if len(data) == 4:
        return socket.inet_ntop(socket.AF_INET, data)
    if len(data) == 16:
        return socket.inet_ntop(socket.AF_INET6, data)
    raise Malformed(f"an IP address has {len(data)} bytes")


NOTHING = Attributes(b"")
