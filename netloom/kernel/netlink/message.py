"""Messages: the header of every payload, the attributes in it, and acknowledgements.

This module builds attributes, and parses them from bytes that may be malformed.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from struct import Struct
from typing import NamedTuple, Self

from ..errors import Malformed, Refused

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
    """The attributes of one message or nest, by type. If a type occurs twice, the last one counts.

    >>> parsed = Attributes(u32(4, 1500) + text(3, "eth0"))
    >>> parsed.u32(4), parsed.text(3), parsed.u32(13)
    (1500, 'eth0', None)
    """

    __slots__ = ("_found",)

    def __init__(self, data: bytes) -> None:
        self._found = dict(each(data))

    @classmethod
    def some(cls, data: bytes, start: int, kinds: Collection[int]) -> Self:
        """Parses the first attribute of each given type and stops after the last of them: for thousands of
        messages.
        """
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
    """Yields all attributes in their order, for lists in which a type may occur often."""
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


HEADER = Struct("=IHHII")
SIZE = HEADER.size
_ERROR = Struct("=i")
_ERROR_SIZE = _ERROR.size + SIZE

NOOP, ERROR, DONE, OVERRUN = 1, 2, 3, 4

REQUEST, MULTI, ACK, ECHO, DUMP_INTERRUPTED = 0x01, 0x02, 0x04, 0x08, 0x10
ROOT, MATCH = 0x100, 0x200
DUMP = ROOT | MATCH
REPLACE, EXCLUSIVE, CREATE, APPEND = 0x100, 0x200, 0x400, 0x800
# On an acknowledgement: the request is truncated after its header; attributes explain the error.
CAPPED, EXPLAINED = 0x100, 0x200

_EXPLANATION, _MISSING_ATTRIBUTE = 1, 5


class NetlinkMessage(NamedTuple):
    kind: int
    flags: int
    sequence: int
    payload: bytes
    port: int = 0


def build(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    return HEADER.pack(SIZE + len(payload), kind, flags, sequence, 0) + payload


def split(data: bytes) -> Iterator[NetlinkMessage]:
    """Yields the messages of one datagram."""
    position, end = 0, len(data)
    new, unpack = tuple.__new__, HEADER.unpack_from
    while end - position >= SIZE:
        length, kind, flags, sequence, port = unpack(data, position)
        if length < SIZE or position + length > end:
            raise Malformed(f"message of kind {kind} claims {length} of {end - position} bytes")
        # Does what `NetlinkMessage` does with one Python call less: a node has thousands of routes.
        yield new(NetlinkMessage, (kind, flags, sequence, data[position + SIZE : position + length], port))
        position += (length + 3) & ~3
    if position < end:
        raise Malformed(f"{end - position} bytes after the last message are no message")


def verdict(message: NetlinkMessage) -> Refused | None:
    """Returns the error of an acknowledgement or of the end of a dump; None on success."""
    payload = message.payload
    if len(payload) < _ERROR.size:
        if message.kind == DONE:
            return None
        raise Malformed(f"an acknowledgement of {len(payload)} bytes")
    (number,) = _ERROR.unpack_from(payload)
    if number == 0 or (message.kind == DONE and number > 0):
        return None
    if not -4096 < number < 0:
        raise Malformed(f"an acknowledgement with error {number}")
    return Refused(-number, _explanation(message))


def _explanation(message: NetlinkMessage) -> str:
    if not message.flags & EXPLAINED:
        return ""
    start = _ERROR.size if message.kind == DONE else _ERROR_SIZE
    if message.kind == ERROR and not message.flags & CAPPED:
        (requested,) = Struct("=I").unpack_from(message.payload.ljust(_ERROR_SIZE, b"\0"), _ERROR.size)
        start += max(requested - SIZE, 0)
    said = Attributes(message.payload[start:])
    words = said.text(_EXPLANATION) or ""
    missing = said.u32(_MISSING_ATTRIBUTE)
    return words if missing is None else f"{words or 'missing attribute'} (attribute {missing})"
