"""The documents that `netloom status` and `netloom pools` print for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...api.findings import Finding


class AgentStatus(Struct, frozen=True, kw_only=True):
    """An agent that answers."""

    version: Annotated[str, Meta(description="version of netloom that the agent runs")]
    process: Annotated[
        int, Meta(description="its PID; in the agent's own PID namespace, if that is not visible")
    ]
    started: Annotated[float, Meta(description="when it started, in seconds since 1970")]
    mtu: Annotated[int, Meta(description="MTU of links whose network sets none: that of the uplink")]
    under_way: Annotated[int, Meta(description="requests in progress")]


class PoolStatus(Struct, frozen=True, kw_only=True):
    """How full a pool is. The counts are null if the journal cannot be read."""

    cidr: Annotated[str, Meta(description="the pool, as the network configures it")]
    capacity: Annotated[int, Meta(description="assignable addresses in total")]
    held: Annotated[int | None, Meta(description="addresses of attachments")]
    resting: Annotated[int | None, Meta(description="released addresses whose cooldown is not over")]
    orphaned: Annotated[
        int | None,
        Meta(
            description="addresses of links that are not in the journal (orphaned): a container may use them"
        ),
    ]
    host: Annotated[
        int | None,
        Meta(
            description="addresses of the host, its gateways, DNS servers and neighbours, which no container "
            "gets"
        ),
    ]
    free: Annotated[int | None, Meta(description="addresses that an ADD can get now")]


class NetworkStatus(Struct, frozen=True, kw_only=True, rename={"cni_version": "cniVersion"}):
    """A network of `type: netloom`."""

    name: Annotated[str, Meta(description="the network's name")]
    path: Annotated[str, Meta(description="its file")]
    cni_version: Annotated[str, Meta(description="CNI version of its configuration")]
    mtu: Annotated[int | None, Meta(description="MTU of its links; null: that of the uplink")]
    pools: Annotated[tuple[PoolStatus, ...], Meta(description="how full each of its pools is")]
    error: Annotated[str, Meta(description="why its file cannot work; empty if it can")]
    trouble: Annotated[str, Meta(description="why nothing can be attached to it now; empty if it can")]


class UnreadableNetwork(Struct, frozen=True, kw_only=True):
    """A file that was meant to be a network of netloom."""

    path: Annotated[str, Meta(description="the file, or the directory of networks itself")]
    error: Annotated[str, Meta(description="why it cannot be used")]


class Status(Struct, frozen=True, kw_only=True):
    """What works on the node, what does not, and the next step."""

    agent: Annotated[AgentStatus | None, Meta(description="the running agent; null if none answers")]
    why: Annotated[str, Meta(description="why no agent answers; empty if one does")]
    silent: Annotated[int | None, Meta(description="PID of an agent that runs and does not answer")]
    next: Annotated[str, Meta(description="what to do first; empty if there is nothing to do")]
    socket: Annotated[str, Meta(description="the agent's socket")]
    state_dir: Annotated[str, Meta(description="the state directory, which has the journal")]
    attachments: Annotated[
        Mapping[str, int] | None,
        Meta(description="number of attachments by state; null if the journal cannot be read"),
    ]
    networks: Annotated[tuple[NetworkStatus, ...], Meta(description="the networks of netloom")]
    unreadable: Annotated[
        tuple[UnreadableNetwork, ...], Meta(description="files that were meant to be networks of netloom")
    ]
    outside: Annotated[
        tuple[str, ...] | None, Meta(description="held addresses that are in no configured pool")
    ]
    intents: Annotated[int, Meta(description="DELs that wait for an agent")]
    troubles: Annotated[tuple[str, ...], Meta(description="why nothing can be attached at all")]
    warnings: Annotated[tuple[str, ...], Meta(description="what works, but may be a mistake")]
    counters: Annotated[Mapping[str, int], Meta(description="the agent's counters since its start")]
    findings: Annotated[
        tuple[Finding, ...], Meta(description="everything that is wrong, each with its cause and remedy")
    ]


class PoolShown(Struct, frozen=True, kw_only=True, rename={"next_free": "nextFree"}):
    """A pool of addresses. `held`, `resting`, `orphaned`, `host` and `free` add up to its capacity."""

    networks: Annotated[list[str], Meta(description="networks that assign addresses from it")]
    cidr: Annotated[str, Meta(description="the pool")]
    family: Annotated[Literal[4, 6], Meta(description="IP version")]
    strategy: Annotated[str, Meta(description="how addresses are chosen")]
    gateway: Annotated[str, Meta(description="containers' next hop in it, never assigned; empty: none")]
    exclude: Annotated[list[str], Meta(description="ranges of addresses that are never assigned")]
    capacity: Annotated[int, Meta(description="assignable addresses in total")]
    held: Annotated[int, Meta(description="addresses of attachments")]
    resting: Annotated[int, Meta(description="released addresses whose cooldown is not over")]
    orphaned: Annotated[
        int,
        Meta(
            description="addresses of links that are not in the journal (orphaned): a container may use them"
        ),
    ]
    host: Annotated[
        int,
        Meta(
            description="addresses of the host, its gateways, DNS servers and neighbours, which no container "
            "gets"
        ),
    ]
    free: Annotated[int, Meta(description="addresses that an ADD can get now")]
    percent: Annotated[float, Meta(description="percentage of the capacity that is not free")]
    next_free: Annotated[
        float | None,
        Meta(
            description="when an ADD can get the next resting address, in seconds since 1970: after its "
            "cooldown, or after a tenth of it if no other address is free; null: no address rests"
        ),
    ]


class Outside(Struct, frozen=True):
    """An address that an attachment holds, and that is in no configured pool."""

    address: Annotated[str, Meta(description="the address")]
    attachment: Annotated[str, Meta(description="the attachment, as network/container/interface")]


class Pools(Struct, frozen=True):
    """How full the pools of this node are."""

    pools: Annotated[list[PoolShown], Meta(description="each pool once, also if several networks share it")]
    outside: Annotated[list[Outside], Meta(description="held addresses that are in no configured pool")]
    findings: Annotated[list[Finding], Meta(description="what is wrong, and what to do next")]
