"""The documents of `ls`, `ports`, `inspect` and `check` for programs. They must not import the kernel."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ...api.findings import Finding
from ...api.protocol import RepairedAttachment
from ...journal import State
from .plan_facts import Bandwidth, HostPort, Masquerade

Condition: TypeAlias = Literal["as planned", "missing", "different", "unknown"]
# State of the attached namespace. `replaced`: its path now leads to another namespace.
Presence: TypeAlias = Literal["there", "gone", "replaced"]


class ObjectState(Struct, frozen=True):
    """One object of a plan, compared with the kernel."""

    object: Annotated[str, Meta(description="its name for people, and where it is")]
    type: Annotated[str, Meta(description="its type in the plan")]
    state: Annotated[Condition, Meta(description="`unknown`: the kernel could not be asked")]
    differences: Annotated[list[str], Meta(description="its differences, in words; or the kernel's error")]


class AttachedWorkload(Struct, frozen=True):
    """The pod of an attachment, as the runtime named it; empty where it gave no name."""

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
        Literal["none", "networks", "containers"], Meta(description="what it is isolated from")
    ]
    netns: Annotated[str, Meta(description="path of its namespace, as the runtime gave it")]
    state: Annotated[State, Meta(description="its state: being attached, attached, being detached")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    workload: Annotated[AttachedWorkload, Meta(description="its pod")]


class HeldPort(Struct, frozen=True, rename={
    "host_ip": "hostIP", "host_port": "hostPort", "container_ip": "containerIP",
    "container_port": "containerPort", "container_id": "containerID", "ifname": "ifName",
}):  # fmt: skip
    """A port of the host that leads to a container, and the attachment that holds it."""

    host_ip: Annotated[str, Meta(description="address of the host; empty: all of this family")]
    host_port: Annotated[int, Meta(description="port of the host")]
    protocol: Annotated[str, Meta(description="`tcp`, `udp` or `sctp`")]
    container_ip: Annotated[str, Meta(description="the container's address that it leads to")]
    container_port: Annotated[int, Meta(description="the container's port that it leads to")]
    network: Annotated[str, Meta(description="network of the attachment that holds it")]
    container_id: Annotated[str, Meta(description="the container")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    state: Annotated[State, Meta(description="state of the attachment")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]


class Direction(Struct, frozen=True):
    """One direction, as the container sees it."""

    packets: Annotated[int, Meta(description="packets that passed")]
    bytes: Annotated[int, Meta(description="bytes of these packets")]
    dropped: Annotated[int, Meta(description="packets that were dropped at either end of the pair")]
    errors: Annotated[int, Meta(description="packets that could not be delivered")]
    limited: Annotated[int | None, Meta(description="packets dropped by its rate limit; null: no limit")]
    waiting: Annotated[int | None, Meta(description="bytes queued by that limit; null: no limit")]


class Counters(Struct, frozen=True):
    """Traffic of an attachment since its link was made."""

    sent: Annotated[Direction, Meta(description="packets from the container")]
    received: Annotated[Direction, Meta(description="packets to the container")]
    refused: Annotated[
        int | None,
        Meta(
            description="packets from the container that the node's table dropped for a false source "
            "address; reset after a day without one; null: the table does not count them"
        ),
    ] = None


class Held(Struct, frozen=True):
    """A process that keeps a namespace alive."""

    process: Annotated[int, Meta(description="its PID")]
    name: Annotated[str, Meta(description="its name in the kernel")]
    how: Annotated[str, Meta(description="how: it runs in it, has it open, or has it mounted")]
    mounted: Annotated[str, Meta(description="where the process has it mounted; empty: nowhere")] = ""


class Netns(Struct, frozen=True):
    """An attachment's network namespace."""

    path: Annotated[str, Meta(description="as the runtime gave it")]
    inode: Annotated[int, Meta(description="its inode, which the kernel may reuse once it is deleted")]
    presence: Annotated[Presence, Meta(description="whether the path still leads to it")]
    holders: Annotated[list[Held], Meta(description="visible processes that keep it alive")]


class Way(Struct, frozen=True):
    """A route of the container."""

    dst: Annotated[str, Meta(description="the destination")]
    gw: Annotated[str, Meta(description="the gateway; empty: on the link itself")]


class Inspected(Struct, frozen=True, kw_only=True, rename={
    "container_id": "containerID", "ifname": "ifName", "host_link": "hostLink", "host_ports": "hostPorts",
    "masquerade": "ipMasq", "config_hash": "configHash",
}):  # fmt: skip
    """An attachment, as the journal records it and as the kernel has it now."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    workload: Annotated[AttachedWorkload, Meta(description="its pod")]
    state: Annotated[State, Meta(description="its state: being attached, attached, being detached")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    routes: Annotated[list[Way], Meta(description="the container's routes, as ADD answered")]
    mac: Annotated[str | None, Meta(description="MAC of the container's end; null: the plan cannot be read")]
    mtu: Annotated[int | None, Meta(description="MTU of both ends; null: the plan cannot be read")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    rank: Annotated[int, Meta(description="its position among its namespace's interfaces; the first is 0")]
    host_ports: Annotated[list[HostPort], Meta(description="ports of the host that lead to it")]
    bandwidth: Annotated[Bandwidth | None, Meta(description="its limits; null: none")]
    masquerade: Annotated[Masquerade | None, Meta(description="what is masqueraded; null: nothing")]
    isolation: Annotated[
        Literal["none", "networks", "containers"], Meta(description="what it is isolated from")
    ]
    netns: Annotated[Netns, Meta(description="its network namespace")]
    config_hash: Annotated[str, Meta(description="hash of its configuration; a repeated ADD must match it")]
    counters: Annotated[Counters | None, Meta(description="its traffic; null: its link does not exist")]
    objects: Annotated[
        list[ObjectState] | None, Meta(description="the objects of its plan; null: the plan is unreadable")
    ]
    result: Annotated[dict[str, Any] | None, Meta(description="what ADD answered; null: unreadable")]
    findings: Annotated[list[Finding], Meta(description="what is wrong with it, and what to do next")]


class Checked(Struct, frozen=True):
    """Attachments that were compared with the kernel, repairs, and findings."""

    attachments: Annotated[
        list[str], Meta(description="attachments that were compared, as network/container/interface")
    ]
    repaired: Annotated[
        list[RepairedAttachment] | None,
        Meta(description="with --repair: attachments that were repaired; null: without --repair"),
    ]
    table: Annotated[bool, Meta(description="whether the agent wrote the node's nft table again")]
    findings: Annotated[list[Finding], Meta(description="what is wrong, and what to do next")]
