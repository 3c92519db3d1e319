"""The document that `netloom explain` prints for programs."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ...api.findings import Finding
from ...journal import State
from ..inspect.documents import ObjectState, Presence
from ..runtimes.runtimes import ContainerRuntime
from .events import Event

_RENAMED = {"container_id": "containerID", "ifname": "ifName"}

Kind: TypeAlias = Literal[
    "container", "pod", "namespace", "attachment", "address", "code", "unknown",
]  # fmt: skip
# `never given`: the address is in a pool, but has another meaning there. `outside`: it is in no pool.
AddressState: TypeAlias = Literal[
    "held", "resting", "free", "host", "neighbour", "next hop", "never given", "outside", "orphaned"
]


class Present(Struct, frozen=True, kw_only=True, rename={**_RENAMED, "host_link": "hostLink"}):
    """An attachment of the journal, compared with the kernel."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    namespace: Annotated[str, Meta(description="the pod's namespace, if the runtime sent it")]
    pod: Annotated[str, Meta(description="the pod's name, if the runtime sent it")]
    state: Annotated[State, Meta(description="its state: being attached, attached, being detached")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    netns: Annotated[str, Meta(description="path of its namespace")]
    presence: Annotated[Presence, Meta(description="whether that path still leads to its namespace")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    planned: Annotated[int | None, Meta(description="number of objects in its plan; null: unreadable")]
    differing: Annotated[list[ObjectState], Meta(description="objects that are not as planned")]


class Tenure(Struct, frozen=True, kw_only=True, rename=_RENAMED):
    """An attachment that held an address, and when."""

    network: Annotated[str, Meta(description="network of the attachment")]
    container_id: Annotated[str, Meta(description="its container")]
    ifname: Annotated[str, Meta(description="its interface")]
    namespace: Annotated[str, Meta(description="the pod's namespace")]
    pod: Annotated[str, Meta(description="the pod's name")]
    began: Annotated[
        float | None, Meta(description="seconds since 1970; null: unknown, the log has only its end")
    ]
    ended: Annotated[
        float | None, Meta(description="seconds since 1970; null: it still holds the address, or unknown")
    ]
    how: Annotated[str, Meta(description="how it ended, in words; empty if it has not ended")]
    current: Annotated[bool, Meta(description="whether it holds the address now")]


class AtMoment(Struct, frozen=True):
    """The holder of an address at the time given with --at."""

    time: Annotated[float, Meta(description="that time, in seconds since 1970")]
    known: Annotated[bool, Meta(description="whether the log of operations has the answer")]
    holder: Annotated[
        Tenure | None,
        Meta(description="the holder; if it is not known, the last one before; null: no holder, or unknown"),
    ]
    why: Annotated[str, Meta(description="why it is not known, in words; empty if it is known")] = ""


class AddressStory(Struct, frozen=True, kw_only=True, rename={"rests_until": "restsUntil"}):
    """What is known about an address."""

    address: Annotated[str, Meta(description="the address in canonical form")]
    state: Annotated[AddressState, Meta(description="its state now")]
    pools: Annotated[list[str], Meta(description="pools that contain it")]
    networks: Annotated[list[str], Meta(description="networks that have these pools")]
    reason: Annotated[str, Meta(description="reason for the state, in words; may be empty")]
    rests_until: Annotated[
        float | None,
        Meta(description="when it can be assigned again, in seconds since 1970; null: it does not rest"),
    ]
    at: Annotated[AtMoment | None, Meta(description="with --at: its holder at that time")]
    tenures: Annotated[list[Tenure], Meta(description="its holders, the latest first")]


class Configuration(Struct, frozen=True):
    """A file in the directory from which runtimes load networks."""

    path: Annotated[str, Meta(description="the file")]
    network: Annotated[str, Meta(description="the network's name; empty if it cannot be read")]
    plugins: Annotated[list[str], Meta(description="types of its plugins")]
    ours: Annotated[bool, Meta(description="whether netloom's plugin is among them")]
    error: Annotated[str, Meta(description="why it cannot be used; empty if it can")]


class Outage(Struct, frozen=True):
    """A time without an agent. Requests of that time failed, and are in no log."""

    began: Annotated[
        float,
        Meta(
            description="when the agent before it stopped, in seconds since 1970; if it did not shut "
            "down cleanly: its last heartbeat"
        ),
    ]
    ended: Annotated[float | None, Meta(description="when the next agent began to serve; null: none did")]
    stopped: Annotated[
        bool,
        Meta(description="false: it did not shut down cleanly, and ended between `began` and `ended`"),
    ]


class Absence(Struct, frozen=True, kw_only=True):
    """Possible reasons why nothing is known about a container."""

    agent: Annotated[str, Meta(description="why no agent answers; empty if one does")]
    outages: Annotated[list[Outage], Meta(description="times without an agent, the latest first")]
    configurations: Annotated[
        list[Configuration], Meta(description="files that runtimes find, in their order: most use the first")
    ]
    runtimes: Annotated[list[ContainerRuntime], Meta(description="runtimes that were found on this machine")]
    similar: Annotated[list[str], Meta(description="known names that are similar to the one asked for")]


class Page(Struct, frozen=True):
    """What a code means."""

    code: Annotated[str, Meta(description="the code")]
    area: Annotated[str, Meta(description="where it comes from: `cni`, `kernel`, `command` or `finding`")]
    title: Annotated[str, Meta(description="the meaning in a few words")]
    meaning: Annotated[str, Meta(description="what it means")]
    remedy: Annotated[str, Meta(description="what to do")]
    page: Annotated[str, Meta(description="its page in the reference")]


class Explanation(Struct, frozen=True, kw_only=True):
    """What is known about the NAME that was given. Fields that do not apply are null or empty."""

    asked: Annotated[str, Meta(description="the NAME that was given")]
    kind: Annotated[Kind, Meta(description="what it is; `unknown`: nothing has this name")]
    name: Annotated[str, Meta(description="its full, unambiguous name")]
    summary: Annotated[str, Meta(description="its state, in a sentence")]
    attachments: Annotated[list[Present], Meta(description="its current attachments")] = []
    operations: Annotated[list[Event], Meta(description="its operations, the oldest first")] = []
    omitted: Annotated[int, Meta(description="number of earlier operations that --limit leaves out")] = 0
    address: Annotated[AddressStory | None, Meta(description="for an address: its story")] = None
    page: Annotated[Page | None, Meta(description="for a code: its page")] = None
    absence: Annotated[Absence | None, Meta(description="for an unknown name: possible reasons")] = None
    findings: Annotated[list[Finding], Meta(description="what is wrong, and what to do next")] = []
    behind: Annotated[
        str, Meta(description="why the log may lack the latest operations, in words; empty if it has them")
    ] = ""
    since: Annotated[
        float | None, Meta(description="when the log of operations begins, in seconds since 1970")
    ] = None
