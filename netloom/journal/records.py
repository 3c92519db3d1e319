"""Rows of the journal as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..cni import AttachmentKey
from .errors import MalformedRow

# Since 1970, or since boot. netloom writes no time beyond the range of a calendar.
Seconds: TypeAlias = Annotated[float, Meta(gt=-1e11, lt=1e11)]
State: TypeAlias = Literal["pending", "committed", "deleting"]


class Attachment(Struct, frozen=True, kw_only=True):
    """One interface of one container on one network, and all that is needed to remove it.

    `rank` numbers a namespace's interfaces from 0. `netns_cookie` is known once the attachment is committed:
    a new namespace that reuses an inode has another cookie. `created` counts seconds since boot, which a
    change of the clock does not affect; `created_at` is for people. `mode` names the mode that made the plan;
    this version may not know it. The attachment's addresses are unique in `address_scope`.
    """

    id: int = 0
    network: str
    container_id: str
    ifname: str
    state: State = "pending"
    netns: str
    netns_device: int
    netns_inode: int
    netns_cookie: int = 0
    rank: int = 0
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    config_hash: str
    host_link: str
    plan: bytes
    result: bytes
    boot_id: str
    created: Seconds
    created_at: Seconds
    mode: str
    address_scope: str

    @property
    def key(self) -> AttachmentKey:
        return AttachmentKey(self.network, self.container_id, self.ifname)


class Port(Struct, frozen=True, kw_only=True):
    """A host port and its target. A `host_ip` of zeros stands for all addresses of its family."""

    protocol: str
    host_port: int
    host_ip: bytes
    ip: bytes
    port: int


class AttachmentPlace(Struct, frozen=True, array_like=True):
    """Where an attachment is: what is needed to check whether it still exists."""

    id: int
    key: AttachmentKey
    state: State
    host_link: str
    netns: str
    netns_device: int
    netns_inode: int


Reason: TypeAlias = Literal["", "handover", "reboot", "pool-exhausted"]


class Operation(Struct, frozen=True, kw_only=True):
    """One verb and its outcome, or an action of the agent itself, whose verbs are `EVENTS`.

    `phases` and `duration` are milliseconds; `code` is 0 on success. `caller` is the process that ran the
    plugin, `details` describes an event, `trace` is the caller's trace context.

    A row may be the only one about its subject: earlier rows are lost when an agent is killed, or dropped
    from a full log. So it says since when its attachment existed (`attached`), and the START after an unclean
    shutdown has the last heartbeat of the agent before. `reason` is why an agent started or stopped,
    or the code of the finding that an ADD failed for, where its own code does not say it.
    """

    id: int = 0
    verb: str
    network: str
    container_id: str
    ifname: str
    started: Seconds
    duration: Seconds
    phases: Mapping[str, float]
    code: int = 0
    error: str = ""
    caller: str = ""
    netns: str = ""
    namespace: str = ""
    pod: str = ""
    addresses: tuple[str, ...] = ()
    trace: str = ""
    details: str = ""
    attached: Seconds | None = None
    heartbeat: Seconds | None = None
    reason: Reason = ""


# An agent started, stopped, repaired an attachment, installed its table, released attachments of deleted
# containers, replayed a queued DEL, undid unfinished work, restored a network's file.
EVENTS = ("START", "STOP", "REPAIR", "TABLE", "RELEASE", "REPLAY", "UNDO", "RESTORE")


T = TypeVar("T")


def typed(values: Any, kind: type[T]) -> T:
    """Returns the values, checked to be of this type. Raises `MalformedRow`.

    From a damaged file, SQLite returns whatever its pages contain, such as rows of another table. A reader
    must not take a number for a name; the error says that the file is damaged.

    >>> typed([(1, "eth0")], list[tuple[int, str]])
    [(1, 'eth0')]
    """
    try:
        return msgspec.convert(values, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise MalformedRow(f"a row is malformed: {error}") from None


def seconds(value: object) -> float:
    """Checks a time in the same way: netloom writes no time beyond the range of a calendar."""
    found: float = typed(value, Seconds)
    return found
