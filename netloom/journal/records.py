"""Rows of the journal as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..cni import AttachmentKey

# Since 1970, or since boot. No calendar goes further; what does was written by somebody else.
Seconds: TypeAlias = Annotated[float, Meta(gt=-1e11, lt=1e11)]
State: TypeAlias = Literal["pending", "committed", "deleting"]


class Attachment(Struct, frozen=True, kw_only=True):
    """One interface of one container on one network, and all that is needed to take it away again.

    `rank` tells a namespace's interfaces apart; the first has 0. `netns_cookie` is known when it is
    committed: a namespace that has the inode of one that is gone has another. `created` counts seconds
    since boot, which no clock's jump changes; `created_at` is for people.
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


class Place(Struct, frozen=True, array_like=True):
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


# An agent began and ended; put back what an attachment lost; laid its table down; released what nobody has
# any more; did a DEL that was queued; took away what was left unfinished.
EVENTS = ("START", "STOP", "REPAIR", "TABLE", "RELEASE", "REPLAY", "UNDO", "RESTORE")
