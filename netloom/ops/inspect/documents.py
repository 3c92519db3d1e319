"""What `ls`, `ports`, `inspect` and `check` give to programs. These types need no kernel."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ...api.findings import Finding
from ...api.protocol import RepairedAttachment
from ...journal import State
from .plan_facts import Bandwidth, HostPort, Masquerade

Condition: TypeAlias = Literal["as planned", "missing", "different", "unknown"]
# Of the namespace that was attached. `replaced`: its path leads to another namespace now.
Presence: TypeAlias = Literal["there", "gone", "replaced"]


class ObjectState(Struct, frozen=True):
    """One object of a plan, and how it is."""

    object: Annotated[str, Meta(description="how people name it, and where it is")]
    type: Annotated[str, Meta(description="its type, as plans have it")]
    state: Annotated[Condition, Meta(description="`unknown`: the kernel could not be asked")]
    differences: Annotated[list[str], Meta(description="how it differs, each in words; or what was said")]


class AttachedWorkload(Struct, frozen=True):
    """Who is attached, as the runtime said it; empty where it said nothing."""

    namespace: Annotated[str, Meta(description="the pod's namespace")]
    pod: Annotated[str, Meta(description="the pod's name")]
    uid: Annotated[str, Meta(description="the pod's UID")]


class Listed(Struct, frozen=True, rename={
    "container_id": "containerID", "ifname": "ifName", "host_link": "hostLink", "host_ports": "hostPorts",
    "masquerade": "ipMasq",
}):  # fmt: skip
    """An attachment: one interface of one container on one network."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    mac: Annotated[str | None, Meta(description="MAC of the container's end; null: the plan cannot be read")]
    mtu: Annotated[int | None, Meta(description="MTU of both ends; null: the plan cannot be read")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    host_ports: Annotated[list[HostPort], Meta(description="ports of the host that lead to it")]
    bandwidth: Annotated[Bandwidth | None, Meta(description="its limits; null: none")]
    masquerade: Annotated[Masquerade | None, Meta(description="what is masqueraded; null: nothing")]
    isolation: Annotated[
        Literal["none", "networks", "containers"], Meta(description="whom it is kept apart from")
    ]
    netns: Annotated[str, Meta(description="path of its namespace, as the runtime gave it")]
    state: Annotated[State, Meta(description="how far it is: being attached, attached, being detached")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    workload: Annotated[AttachedWorkload, Meta(description="whose it is")]


class HeldPort(Struct, frozen=True, rename={
    "host_ip": "hostIP", "host_port": "hostPort", "container_ip": "containerIP",
    "container_port": "containerPort", "container_id": "containerID", "ifname": "ifName",
}):  # fmt: skip
    """A port of the host that leads to a container, and who holds it."""

    host_ip: Annotated[str, Meta(description="address of the host; empty: all of this family")]
    host_port: Annotated[int, Meta(description="port of the host")]
    protocol: Annotated[str, Meta(description="`tcp`, `udp` or `sctp`")]
    container_ip: Annotated[str, Meta(description="the container's address that it leads to")]
    container_port: Annotated[int, Meta(description="and the port there")]
    network: Annotated[str, Meta(description="network of the attachment that holds it")]
    container_id: Annotated[str, Meta(description="the container")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    state: Annotated[State, Meta(description="how far the attachment is")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]


class Direction(Struct, frozen=True):
    """One direction, as the container sees it."""

    packets: Annotated[int, Meta(description="packets that passed")]
    bytes: Annotated[int, Meta(description="bytes of these")]
    dropped: Annotated[int, Meta(description="packets that were dropped at either end of the pair")]
    errors: Annotated[int, Meta(description="packets that could not be handed over")]
    limited: Annotated[int | None, Meta(description="dropped by the limit of its rate; null: it has none")]
    waiting: Annotated[int | None, Meta(description="bytes that wait for that limit; null: it has none")]


class Counters(Struct, frozen=True):
    """Since the link was made."""

    sent: Annotated[Direction, Meta(description="by the container")]
    received: Annotated[Direction, Meta(description="by the container")]
    refused: Annotated[
        int | None,
        Meta(
            description="packets that the container sent and the node's table dropped, since their source "
            "was not its own, until a day passes without one; null: the table does not count them"
        ),
    ] = None


class Held(Struct, frozen=True):
    """A process that keeps a namespace alive."""

    process: Annotated[int, Meta(description="its number")]
    name: Annotated[str, Meta(description="its name, as the kernel has it")]
    how: Annotated[str, Meta(description="how: it runs in it, has it open, or has it mounted")]


class Netns(Struct, frozen=True):
    """An attachment's network namespace."""

    path: Annotated[str, Meta(description="as the runtime gave it")]
    inode: Annotated[int, Meta(description="its number, which the kernel may give again when it is gone")]
    presence: Annotated[Presence, Meta(description="whether the path still leads to it")]
    holders: Annotated[list[Held], Meta(description="who keeps it alive, as far as it can be seen")]


class Way(Struct, frozen=True):
    """A route of the container."""

    dst: Annotated[str, Meta(description="where to")]
    gw: Annotated[str, Meta(description="by which gateway; empty: on the link itself")]


class Inspected(Struct, frozen=True, kw_only=True, rename={
    "container_id": "containerID", "ifname": "ifName", "host_link": "hostLink", "host_ports": "hostPorts",
    "masquerade": "ipMasq", "config_hash": "configHash",
}):  # fmt: skip
    """An attachment, as the journal has it, and as the kernel has it at this moment."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    workload: Annotated[AttachedWorkload, Meta(description="whose it is")]
    state: Annotated[State, Meta(description="how far it is: being attached, attached, being detached")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    routes: Annotated[list[Way], Meta(description="the container's routes, as ADD answered")]
    mac: Annotated[str | None, Meta(description="MAC of the container's end; null: the plan cannot be read")]
    mtu: Annotated[int | None, Meta(description="MTU of both ends; null: the plan cannot be read")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    rank: Annotated[int, Meta(description="which of its namespace's interfaces it is; the first is 0")]
    host_ports: Annotated[list[HostPort], Meta(description="ports of the host that lead to it")]
    bandwidth: Annotated[Bandwidth | None, Meta(description="its limits; null: none")]
    masquerade: Annotated[Masquerade | None, Meta(description="what is masqueraded; null: nothing")]
    isolation: Annotated[
        Literal["none", "networks", "containers"], Meta(description="whom it is kept apart from")
    ]
    netns: Annotated[Netns, Meta(description="its network namespace")]
    config_hash: Annotated[str, Meta(description="tells configurations apart; a repeated ADD must have it")]
    counters: Annotated[Counters | None, Meta(description="its traffic; null: its link is not there")]
    objects: Annotated[
        list[ObjectState] | None, Meta(description="its plan, each object as it is; null: unreadable")
    ]
    result: Annotated[dict[str, Any] | None, Meta(description="what ADD answered; null: unreadable")]
    findings: Annotated[list[Finding], Meta(description="what is wrong with it, and what to do next")]


class Checked(Struct, frozen=True):
    """What was compared, what was done about it, and what is not as it should be."""

    attachments: Annotated[list[str], Meta(description="what was compared, as network/container/interface")]
    repaired: Annotated[
        list[RepairedAttachment] | None,
        Meta(description="with --repair: what was done; null: it was not asked for"),
    ]
    table: Annotated[bool, Meta(description="whether the node's nft table was laid down anew")]
    findings: Annotated[list[Finding], Meta(description="what is not as it should be, and what to do next")]
