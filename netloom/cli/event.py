"""An operation of the log, as programs and people get it from `events` and `explain`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..journal import Operation
from . import moments
from .short_id import short_id

HEADER = ("WHEN", "VERB", "NETWORK", "CONTAINER", "INTERFACE", "POD", "TOOK", "BY", "OUTCOME")


class Event(Struct, frozen=True, kw_only=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """One operation: a verb that a runtime asked for, or what the agent did by itself."""

    id: Annotated[int, Meta(description="its number; later ones have higher numbers")]
    verb: Annotated[
        str,
        Meta(
            description="of CNI: `ADD`, `DEL`, `CHECK`, `GC`, `STATUS`; of the agent itself: `START`, "
            "`STOP`, `REPAIR`, `TABLE`, `RELEASE`, `REPLAY`, `UNDO`, `RESTORE`"
        ),
    ]
    network: Annotated[str, Meta(description="the network's name; empty if it is about none")]
    container_id: Annotated[str, Meta(description="the container; empty if it is about none")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    namespace: Annotated[str, Meta(description="the pod's namespace, if the runtime said it")]
    pod: Annotated[str, Meta(description="the pod's name, if the runtime said it")]
    netns: Annotated[str, Meta(description="path of the container's network namespace")]
    addresses: Annotated[list[str], Meta(description="addresses that the attachment has, or had")]
    attached: Annotated[
        float | None,
        Meta(
            description="since when the attachment was there, in seconds since 1970; null: not known, or none"
        ),
    ] = None
    started: Annotated[float, Meta(description="when it began, in seconds since 1970")]
    duration: Annotated[float, Meta(description="milliseconds that it took")]
    phases: Annotated[dict[str, float], Meta(description="milliseconds of each part of it, in their order")]
    code: Annotated[int, Meta(description="0, or the code of the error that it ended with")]
    error: Annotated[str, Meta(description="that error in words; empty if it went well")]
    caller: Annotated[str, Meta(description="the process that ran the plugin, as in `containerd[812]`")]
    details: Annotated[str, Meta(description="what the agent did, if it did it by itself")]
    heartbeat: Annotated[
        float | None,
        Meta(
            description="of a `START`: when the previous agent was last alive, in seconds since 1970, if it "
            "did not shut down cleanly; else null"
        ),
    ] = None
    reason: Annotated[
        str,
        Meta(
            description="of a `STOP`: `handover` if another agent took over; of a `START`: `reboot` if "
            "attachments of another boot were released; else empty"
        ),
    ] = ""
    trace: Annotated[str, Meta(description="the caller's W3C trace context, if it gave one")]

    @property
    def failed(self) -> bool:
        return self.code != 0


def event_of(it: Operation) -> Event:
    return Event(
        id=it.id,
        verb=it.verb,
        network=it.network,
        container_id=it.container_id,
        ifname=it.ifname,
        namespace=it.namespace,
        pod=it.pod,
        netns=it.netns,
        addresses=list(it.addresses),
        attached=it.attached,
        started=it.started,
        duration=it.duration,
        phases=dict(it.phases),
        code=it.code,
        error=it.error,
        caller=it.caller,
        details=it.details,
        heartbeat=it.heartbeat,
        reason=it.reason,
        trace=it.trace,
    )


def row_of(it: Event) -> list[str]:
    """For a table with `HEADER`."""
    return [
        moments.shown(it.started, precise=True),
        it.verb,
        it.network or "-",
        short_id(it.container_id) or "-",
        it.ifname or "-",
        pod_of(it) or "-",
        took(it.duration) if it.duration else "-",
        it.caller or "-",
        outcome_of(it),
    ]


def pod_of(it: Event) -> str:
    """podman has pods without namespaces."""
    return "/".join(filter(None, (it.namespace, it.pod)))


def outcome_of(it: Event) -> str:
    if it.failed:
        return f"code {it.code}: {it.error}"
    return details_of(it) or ", ".join(it.addresses) or "done"


def details_of(it: Event) -> str:
    """For people, with times in the zone of this machine."""
    if it.heartbeat is None:
        return it.details
    last = moments.shown(it.heartbeat, precise=True)
    return f"{it.details}; the previous agent did not shut down cleanly; last heartbeat {last}"


def took(milliseconds: float) -> str:
    """As people say it.

    >>> took(0.042), took(2.349), took(151.2), took(2500.0)
    ('0.04 ms', '2.3 ms', '151 ms', '2.5 s')
    """
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    if milliseconds >= 100:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 1 else f"{milliseconds:.2f} ms"
