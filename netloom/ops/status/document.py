"""The documents that `netloom status` and `netloom pools` print for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...api.findings import Finding


class AgentStatus(Struct, frozen=True, kw_only=True):
    """An agent that answers."""

    version: Annotated[str, Meta(description="of netloom, as the agent was started with it")]
    process: Annotated[int, Meta(description="its number; in its own PID namespace, if that cannot be seen")]
    started: Annotated[float, Meta(description="seconds since 1970")]
    mtu: Annotated[int, Meta(description="of links whose network does not say one: that of the way out")]
    under_way: Annotated[int, Meta(description="requests that it is working on")]


class PoolStatus(Struct, frozen=True, kw_only=True):
    """How full a pool is. Without a journal that can be read, nobody knows, and it is null."""

    cidr: Annotated[str, Meta(description="the pool, as the network has it")]
    capacity: Annotated[int, Meta(description="addresses that it can give in all")]
    held: Annotated[int | None, Meta(description="addresses of attachments")]
    resting: Annotated[int | None, Meta(description="addresses that were given back and wait for a while")]
    orphaned: Annotated[
        int | None,
        Meta(description="of links that are not in the journal (orphaned): a container may use them"),
    ]
    host: Annotated[
        int | None,
        Meta(description="addresses of the host, its gateways, DNS servers and neighbours: none is given"),
    ]
    free: Annotated[int | None, Meta(description="addresses that an ADD may have now")]


class NetworkStatus(Struct, frozen=True, kw_only=True, rename={"cni_version": "cniVersion"}):
    """A network of `type: netloom`."""

    name: Annotated[str, Meta(description="as containers are attached to it")]
    path: Annotated[str, Meta(description="its file")]
    cni_version: Annotated[str, Meta(description="of its configuration")]
    mtu: Annotated[int | None, Meta(description="of its links; null: that of the way out")]
    pools: Annotated[tuple[PoolStatus, ...], Meta(description="how full each of its pools is")]
    error: Annotated[str, Meta(description="why its file cannot work; empty if it can")]
    trouble: Annotated[str, Meta(description="why nothing can be attached to it now; empty if it can")]


class UnreadableNetwork(Struct, frozen=True, kw_only=True):
    """A file that was meant to be a network of netloom."""

    path: Annotated[str, Meta(description="the file, or the directory of networks itself")]
    error: Annotated[str, Meta(description="why it is none")]


class Status(Struct, frozen=True, kw_only=True):
    """What works, what does not, and the next step."""

    agent: Annotated[AgentStatus | None, Meta(description="null if none answers")]
    why: Annotated[str, Meta(description="why no agent answers")]
    silent: Annotated[int | None, Meta(description="the process of an agent that runs and does not answer")]
    next: Annotated[str, Meta(description="what to do first; empty if there is nothing to do")]
    socket: Annotated[str, Meta(description="where the agent was asked")]
    state_dir: Annotated[str, Meta(description="where the journal is")]
    attachments: Annotated[
        Mapping[str, int] | None, Meta(description="how many, by state; null if no journal tells")
    ]
    networks: Annotated[tuple[NetworkStatus, ...], Meta(description="the networks of netloom")]
    unreadable: Annotated[
        tuple[UnreadableNetwork, ...], Meta(description="files that were meant to be networks of netloom")
    ]
    outside: Annotated[
        tuple[str, ...] | None, Meta(description="addresses that are held and of no pool that is configured")
    ]
    intents: Annotated[int, Meta(description="DELs that wait for an agent")]
    troubles: Annotated[tuple[str, ...], Meta(description="why nothing can be attached at all")]
    warnings: Annotated[tuple[str, ...], Meta(description="what works and may not be what was meant")]
    counters: Annotated[Mapping[str, int], Meta(description="what the agent has counted since its start")]
    findings: Annotated[
        tuple[Finding, ...], Meta(description="everything that is wrong, each with its cause and remedy")
    ]


class PoolShown(Struct, frozen=True, kw_only=True, rename={"next_free": "nextFree"}):
    """A pool of addresses. `held`, `resting`, `orphaned`, `host` and `free` are together its capacity."""

    networks: Annotated[list[str], Meta(description="networks that give addresses from it")]
    cidr: Annotated[str, Meta(description="the pool")]
    family: Annotated[Literal[4, 6], Meta(description="of IP")]
    strategy: Annotated[str, Meta(description="how addresses are chosen")]
    gateway: Annotated[str, Meta(description="containers' next hop in it, never given; empty: none")]
    exclude: Annotated[list[str], Meta(description="what is never given, as ranges")]
    capacity: Annotated[int, Meta(description="addresses that can be given")]
    held: Annotated[int, Meta(description="by attachments")]
    resting: Annotated[int, Meta(description="released, and not given again yet")]
    orphaned: Annotated[
        int, Meta(description="of links that are not in the journal (orphaned): a container may use them")
    ]
    host: Annotated[
        int,
        Meta(description="of the host, its gateways, DNS servers and neighbours, which no container gets"),
    ]
    free: Annotated[int, Meta(description="that an ADD may have now")]
    percent: Annotated[float, Meta(description="of the capacity that is not free")]
    next_free: Annotated[
        float | None,
        Meta(
            description="when an ADD may have the next that rests, in seconds since 1970: after its "
            "cooldown, or after a tenth of it if no other is free; null: none rests"
        ),
    ]


class Outside(Struct, frozen=True):
    """An address that an attachment holds, and that no pool has which is configured now."""

    address: Annotated[str, Meta(description="the address")]
    attachment: Annotated[str, Meta(description="who holds it, as network/container/interface")]


class Pools(Struct, frozen=True):
    """How full the pools of this node are."""

    pools: Annotated[list[PoolShown], Meta(description="each once, also if several networks share it")]
    outside: Annotated[list[Outside], Meta(description="held, and of no pool")]
    findings: Annotated[list[Finding], Meta(description="what is wrong, and what to do next")]
