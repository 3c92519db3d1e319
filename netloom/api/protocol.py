"""What the plugin and the agent say to each other: one request and one reply for each connection.

    request:  u32 length, u32 length of the head, head (JSON), body (the plugin's standard input)
    reply:    u32 length, one byte exit status, what the plugin prints

Numbers are big-endian. The namespace's descriptor comes with the request's first byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Packing

import msgspec
from msgspec import Struct

VERSION = 1
HEAD_MAX = 1 << 20
BODY_MAX = 16 << 20
REQUEST_MAX = 4 + HEAD_MAX + BODY_MAX

LENGTH = Packing("!I")


class ProtocolError(Exception):
    """The other side does not speak as agreed."""


class Head(Struct, frozen=True):
    """`sent` is nanoseconds since boot. `question` is asked by the command line, not by the plugin."""

    protocol: int
    environment: Mapping[str, str] = {}
    sent: int = 0
    own_netns: bool = False
    netns_error: str = ""
    question: str = ""


class Message(Struct, frozen=True):
    """A request, without its descriptor."""

    head: Head
    body: bytes
    frame: bytes = b""


class Reply(Struct, frozen=True):
    status: int
    output: bytes

    def encode(self) -> bytes:
        return LENGTH.pack(1 + len(self.output)) + bytes((self.status,)) + self.output


class Refusal(Struct, frozen=True, omit_defaults=True):
    """The answer to a question that failed. Without a `code`, the agent does not know the question."""

    error: str
    code: int | None = None


_head = msgspec.json.Decoder(Head)


def decode(frame: bytes) -> Message:
    """A request without its first length, as it is sent and as intents are kept."""
    if len(frame) < LENGTH.size:
        raise ProtocolError("the request is too short")
    (size,) = LENGTH.unpack_from(frame)
    end = LENGTH.size + size
    if size > HEAD_MAX or end > len(frame):
        raise ProtocolError(f"the request's head cannot have {size} bytes")
    try:
        head = _head.decode(frame[LENGTH.size : end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as cause:
        raise ProtocolError(f"the request's head cannot be read: {cause}") from None
    if head.protocol != VERSION:
        raise ProtocolError(
            f"the plugin speaks protocol {head.protocol}, this agent {VERSION}: "
            "install the plugin that belongs to it with `netloom up`"
        )
    return Message(head, frame[end:], frame)


def encode(head: Head, body: bytes = b"") -> bytes:
    """A request as it is sent."""
    encoded = msgspec.json.encode(head)
    return LENGTH.pack(LENGTH.size + len(encoded) + len(body)) + LENGTH.pack(len(encoded)) + encoded + body
