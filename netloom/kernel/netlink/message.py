"""Messages: the header around every payload, and acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ..errors import Malformed, Refused
from .attributes import Attributes

HEADER = Struct("=IHHII")
SIZE = HEADER.size
_ERROR = Struct("=i")
_ERROR_SIZE = _ERROR.size + SIZE

NOOP, ERROR, DONE, OVERRUN = 1, 2, 3, 4

REQUEST, MULTI, ACK, ECHO, DUMP_INTERRUPTED = 0x01, 0x02, 0x04, 0x08, 0x10
ROOT, MATCH = 0x100, 0x200
DUMP = ROOT | MATCH
REPLACE, EXCLUSIVE, CREATE, APPEND = 0x100, 0x200, 0x400, 0x800
# On an acknowledgement: the request is cut off after its header; attributes explain the error.
CAPPED, EXPLAINED = 0x100, 0x200

_EXPLANATION, _MISSING_ATTRIBUTE = 1, 5


class Message(NamedTuple):
    kind: int
    flags: int
    sequence: int
    payload: bytes
    port: int = 0


def build(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    return HEADER.pack(SIZE + len(payload), kind, flags, sequence, 0) + payload


def split(data: bytes) -> Iterator[Message]:
    """The messages of one datagram."""
    position, end = 0, len(data)
    new, unpack = tuple.__new__, HEADER.unpack_from
    while end - position >= SIZE:
        length, kind, flags, sequence, port = unpack(data, position)
        if length < SIZE or position + length > end:
            raise Malformed(f"message of kind {kind} claims {length} of {end - position} bytes")
        # As `Message` does it, by a function of Python less: a node has thousands of routes.
        yield new(Message, (kind, flags, sequence, data[position + SIZE : position + length], port))
        position += (length + 3) & ~3
    if position < end:
        raise Malformed(f"{end - position} bytes after the last message are no message")


def verdict(message: Message) -> Refused | None:
    """What an acknowledgement, or the end of a dump, says: nothing if all is well."""
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


def _explanation(message: Message) -> str:
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
