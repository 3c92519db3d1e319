"""Rows of the journal as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..cni import AttachmentKey
from .errors import MalformedRow

# Since 1970, or since boot. No calendar goes further: netloom does not write such a time.
Seconds: TypeAlias = Annotated[float, Meta(gt=-1e11, lt=1e11)]
State: TypeAlias = Literal["pending", "committed", "deleting"]


class Attachment(Struct, frozen=True, kw_only=True):
    """One interface of one container on one network, and all that is needed to take it away again.

    `rank` tells a namespace's interfaces apart; the first has 0. `netns_cookie` is known when it is
    committed: a namespace that has the inode of one that is gone has another. `created` counts seconds
    since boot, which no clock's jump changes; `created_at` is for people. `mode` is the name of the mode that
    made the plan; this version may not know it. Its addresses are unique in `address_scope`.
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
    """A port of the host, and where it leads to. A `host_ip` of zeros stands for all of its family."""

    protocol: str
    host_port: int
    host_ip: bytes
    ip: bytes
    port: int


class AttachmentPlace(Struct, frozen=True, array_like=True):
    """Where an attachment is: what is needed to see whether it is still there."""

    id: int
    key: AttachmentKey
    state: State
    host_link: str
    netns: str
    netns_device: int
    netns_inode: int


class Operation(Struct, frozen=True, kw_only=True):
    """One verb, as it went; or what the agent did by itself, whose verbs are `EVENTS`.

    `phases` and `duration` are milliseconds; `code` is 0 if it succeeded. `caller` is the process that ran
    the plugin, `details` what is worth knowing of an event, `trace` the caller's trace context.

    A line may be all that is left of what it is about: those before it are lost with an agent that was
    killed, or dropped from a log that is full. So it says since when its attachment was there (`attached`),
    and the START after an agent that did not shut down cleanly has that one's last heartbeat. `reason` is
    why an agent began or ended.
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
    reason: Literal["", "handover", "reboot"] = ""


# An agent started and stopped, repaired an attachment, laid its table down, released attachments whose
# containers are gone, replayed a queued DEL, undid what was unfinished, restored a network's file.
EVENTS = ("START", "STOP", "REPAIR", "TABLE", "RELEASE", "REPLAY", "UNDO", "RESTORE")


T = TypeVar("T")


def typed(values: Any, kind: type[T]) -> T:
    """The values, checked to be of this type. Raises `MalformedRow`.

    From a damaged file, SQLite returns whatever its pages have, such as rows of another table. A reader must
    not take a number for a name: the file is damaged, and the error says so.

    >>> typed([(1, "eth0")], list[tuple[int, str]])
    [(1, 'eth0')]
    """
    try:
        return msgspec.convert(values, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise MalformedRow(f"a row is malformed: {error}") from None


def seconds(value: object) -> float:
    """The same for a time. netloom writes none that no calendar has."""
    found: float = typed(value, Seconds)
    return found
