"""The protocol between the agent and its clients: the plugin's requests and the documents of RPCs."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from struct import Struct as Packing
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ..cni.files import read_document
from .findings import Finding

VERSION = 1
HEAD_MAX = 1 << 20
BODY_MAX = 16 << 20
REQUEST_MAX = 4 + HEAD_MAX + BODY_MAX

LENGTH = Packing("!I")


class ProtocolError(Exception):
    """The other side violates the protocol."""


class Head(Struct, frozen=True):
    """`sent` is nanoseconds since boot. `question` names the RPC of a command; the plugin sends none."""

    protocol: int
    environment: Mapping[str, str] = {}
    sent: int = 0
    own_netns: bool = False
    netns_error: str = ""
    question: str = ""


class Message(Struct, frozen=True):
    """A request without its file descriptor."""

    head: Head
    body: bytes
    frame: bytes = b""


class Reply(Struct, frozen=True):
    status: int
    output: bytes

    def encode(self) -> bytes:
        return LENGTH.pack(1 + len(self.output)) + bytes((self.status,)) + self.output


class Refusal(Struct, frozen=True, omit_defaults=True):
    """The answer to an RPC that failed. Without a `code`, the agent does not know the RPC."""

    error: str
    code: int | None = None


_head = msgspec.json.Decoder(Head)


def decode(frame: bytes) -> Message:
    """Decodes a request without its first length: as it is sent, and as intents are stored."""
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
            f"the plugin uses protocol {head.protocol}, this agent protocol {VERSION}: "
            "`netloom up` installs the plugin that belongs to the agent"
        )
    return Message(head, frame[end:], frame)


def encode(head: Head, body: bytes = b"") -> bytes:
    """Encodes a request for the socket."""
    encoded = msgspec.json.encode(head)
    return LENGTH.pack(LENGTH.size + len(encoded) + len(body)) + LENGTH.pack(len(encoded)) + encoded + body


SUFFIX = ".del"

# Too large, a directory, a FIFO: the plugin writes no such file.
_NO_REQUEST = (errno.EFBIG, errno.EISDIR, errno.EINVAL)


def read_intent(path: str) -> Message:
    """Raises `ProtocolError` if the file is not a request, and OSError if it cannot be read now."""
    try:
        return decode(read_document(path, limit=REQUEST_MAX))
    except OSError as cause:
        if cause.errno in _NO_REQUEST:
            raise ProtocolError(f"{cause.strerror}: {path}") from None
        raise


def waiting(directory: str) -> list[str]:
    """Returns the queued files, the oldest first; an empty list if others can write to the directory."""
    try:
        status = os.stat(directory, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return []
        with os.scandir(directory) as entries:
            found = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if _is_intent(entry)]
    except OSError:
        return []
    return [path for _, path in sorted(found)]


def _is_intent(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name.endswith(SUFFIX)
        and not entry.name.startswith(".")
        and entry.is_file(follow_symlinks=False)
    )


class Info(Struct, frozen=True, kw_only=True):
    """What an agent reports about itself. An older agent may lack some fields."""

    version: str
    process: int
    state_dir: str = ""
    socket: str = ""
    boot_id: str = ""
    mtu: int = 0
    # The edition of its nft table. Two agents with different editions differ, whatever `version` says.
    table: str = ""
    started: float = 0.0
    attachments: Mapping[str, int] = {}
    intents: int = 0
    under_way: int = 0
    troubles: Sequence[str] = ()
    # The same problems as `troubles`, for programs.
    findings: Sequence[Finding] = ()
    # Whether the file at the journal's path is the one to which the agent writes.
    has_journal: bool = True
    # If not: the file or copy that has the whole journal; empty: there is none.
    journal_at: str = ""
    # Orphaned links with their addresses, which stay reserved.
    orphans: Mapping[str, Sequence[str]] = {}
    counters: Mapping[str, int] = {}


# The key of an attachment: network, container, interface.
Key = tuple[str, str, str]

AT_A_TIME = 50


class RepairRequest(Struct, frozen=True):
    """`recreate` permits recreating links, which ends their containers' connections."""

    keys: Sequence[Key] = ()
    recreate: bool = False


class RepairedAttachment(
    Struct, frozen=True, kw_only=True, rename={"put_back": "putBack", "set_right": "setRight"}
):
    """The result of repairing one attachment."""

    attachment: Annotated[str, Meta(description="as network/container/interface")]
    put_back: Annotated[list[str], Meta(description="missing objects that were created again")]
    set_right: Annotated[list[str], Meta(description="changed objects that were restored")]
    recreated: Annotated[bool, Meta(description="whether its link was recreated")]
    left: Annotated[list[str], Meta(description="differences from the plan that remain, as text")]
    error: Annotated[str, Meta(description="why the repair failed; empty if it did not fail")]

    @property
    def changed(self) -> bool:
        return bool(self.put_back or self.set_right or self.recreated)


class RepairAnswer(Struct, frozen=True):
    """`table` is whether the node's nft table had to be created again."""

    table: bool
    repaired: list[RepairedAttachment]
