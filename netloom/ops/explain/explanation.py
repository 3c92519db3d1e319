"""What `netloom explain` gives to programs."""

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
# Of an address. `never given`: it is in a pool, and means something else there. `outside`: of no pool.
AddressState: TypeAlias = Literal[
    "held", "resting", "free", "host", "neighbour", "next hop", "never given", "outside", "orphaned"
]


class Present(Struct, frozen=True, kw_only=True, rename={**_RENAMED, "host_link": "hostLink"}):
    """An attachment that the journal has, compared with the kernel just now."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    namespace: Annotated[str, Meta(description="the pod's namespace, if the runtime said it")]
    pod: Annotated[str, Meta(description="the pod's name, if the runtime said it")]
    state: Annotated[State, Meta(description="how far it is: being attached, attached, being detached")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    netns: Annotated[str, Meta(description="path of its namespace")]
    presence: Annotated[Presence, Meta(description="whether that path still leads to its namespace")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    planned: Annotated[int | None, Meta(description="objects of its plan; null: it cannot be read")]
    differing: Annotated[list[ObjectState], Meta(description="those that are not as planned")]


class Tenure(Struct, frozen=True, kw_only=True, rename=_RENAMED):
    """Who had an address, and when."""

    network: Annotated[str, Meta(description="network of the attachment")]
    container_id: Annotated[str, Meta(description="its container")]
    ifname: Annotated[str, Meta(description="its interface")]
    namespace: Annotated[str, Meta(description="the pod's namespace")]
    pod: Annotated[str, Meta(description="the pod's name")]
    began: Annotated[
        float | None, Meta(description="seconds since 1970; null: not known, the log has its end alone")
    ]
    ended: Annotated[float | None, Meta(description="null: it still has it, or nobody knows when it ended")]
    how: Annotated[str, Meta(description="how it ended, in words; empty if it has not")]
    current: Annotated[bool, Meta(description="whether it has it now")]


class AtMoment(Struct, frozen=True):
    """Who had an address at the moment that was asked for."""

    time: Annotated[float, Meta(description="that moment, in seconds since 1970")]
    known: Annotated[bool, Meta(description="whether the log of operations can tell")]
    holder: Annotated[
        Tenure | None,
        Meta(
            description="who had it; null: nobody, or it is not known; if it is not known: who had it before"
        ),
    ]
    why: Annotated[str, Meta(description="why it is not known, in words; empty if it is")] = ""


class AddressStory(Struct, frozen=True, kw_only=True, rename={"rests_until": "restsUntil"}):
    """All that is known of an address."""

    address: Annotated[str, Meta(description="as addresses are written")]
    state: Annotated[AddressState, Meta(description="what it is now")]
    pools: Annotated[list[str], Meta(description="pools that it is in")]
    networks: Annotated[list[str], Meta(description="networks that have these pools")]
    reason: Annotated[str, Meta(description="why it is so, in words; empty if there is nothing to add")]
    rests_until: Annotated[
        float | None, Meta(description="when it may be given again, in seconds since 1970; null: no rest")
    ]
    at: Annotated[AtMoment | None, Meta(description="with --at: who had it then")]
    tenures: Annotated[list[Tenure], Meta(description="who had it, the latest first")]


class Configuration(Struct, frozen=True):
    """A file that runtimes find in their directory of networks."""

    path: Annotated[str, Meta(description="the file")]
    network: Annotated[str, Meta(description="the network's name; empty if it cannot be read")]
    plugins: Annotated[list[str], Meta(description="types of its plugins")]
    ours: Annotated[bool, Meta(description="whether netloom's plugin is among them")]
    error: Annotated[str, Meta(description="why it cannot be used; empty if it can")]


class Outage(Struct, frozen=True):
    """A time without an agent: what was asked then failed, and is in no log."""

    began: Annotated[
        float,
        Meta(
            description="when the agent before it stopped, in seconds since 1970; if it did not shut "
            "down cleanly: its last heartbeat"
        ),
    ]
    ended: Annotated[float | None, Meta(description="when the next one served; null: none does")]
    stopped: Annotated[
        bool,
        Meta(description="false: it did not shut down cleanly, and ended between `began` and `ended`"),
    ]


class Absence(Struct, frozen=True, kw_only=True):
    """Why there may be nothing to tell of a container."""

    agent: Annotated[str, Meta(description="why no agent answers; empty if one does")]
    outages: Annotated[list[Outage], Meta(description="times without an agent, the latest first")]
    configurations: Annotated[
        list[Configuration], Meta(description="what runtimes find, in their order: most take the first")
    ]
    runtimes: Annotated[list[ContainerRuntime], Meta(description="runtimes that were found on this machine")]
    similar: Annotated[list[str], Meta(description="names that are known, and look like the one asked for")]


class Page(Struct, frozen=True):
    """What a code means."""

    code: Annotated[str, Meta(description="the code")]
    area: Annotated[str, Meta(description="where it comes from: `cni`, `kernel`, `command` or `finding`")]
    title: Annotated[str, Meta(description="in a few words")]
    meaning: Annotated[str, Meta(description="what it means")]
    remedy: Annotated[str, Meta(description="what to do")]
    page: Annotated[str, Meta(description="where the reference has it")]


class Explanation(Struct, frozen=True, kw_only=True):
    """What is known of something that was asked for. What does not apply is null, or an empty list."""

    asked: Annotated[str, Meta(description="the word that was asked for")]
    kind: Annotated[Kind, Meta(description="what it is; `unknown`: nobody has this name")]
    name: Annotated[str, Meta(description="what names it beyond doubt")]
    summary: Annotated[str, Meta(description="how it is, in a sentence")]
    attachments: Annotated[list[Present], Meta(description="what is attached of it now")] = []
    operations: Annotated[list[Event], Meta(description="what was done with it, the oldest first")] = []
    omitted: Annotated[int, Meta(description="earlier operations that --limit leaves out")] = 0
    address: Annotated[AddressStory | None, Meta(description="of an address: its story")] = None
    page: Annotated[Page | None, Meta(description="of a code: its page")] = None
    absence: Annotated[Absence | None, Meta(description="of an unknown name: why it may be so")] = None
    findings: Annotated[list[Finding], Meta(description="what is wrong, and what to do next")] = []
    behind: Annotated[
        str, Meta(description="why the log may lack what happened last, in words; empty: it does not")
    ] = ""
    since: Annotated[
        float | None, Meta(description="when the log of operations begins, in seconds since 1970")
    ] = None
