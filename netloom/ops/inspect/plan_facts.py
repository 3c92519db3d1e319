"""Reads what a recorded plan says about its attachment, in one pass.

To decode all objects of two thousand plans, and to import the kernel for it, would take longer than the rest
of `netloom ls`. So this module decodes only the fields that are shown, for objects of any type.
`netloom.networks` defines their meaning; a test keeps both in agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ...networks.names import queue_of

# The version of plans that this module can read: that of `netloom.kernel.plan`.
VERSION = 1

# Names of sets and chains in the node's table.
_PORTS = frozenset({"ports4", "ports6"})
_PORTS_AT = frozenset({"ports4_at", "ports6_at"})
_LEAVING4, _LEAVING6, _APART = "leaving4", "leaving6", "apart"
_LEAVE = "leave-"
_GROUPS = frozenset({"224.0.0.0/4", "ff00::/8"})


class HostPort(
    Struct,
    frozen=True,
    rename={
        "host_ip": "hostIP",
        "host_port": "hostPort",
        "container_ip": "containerIP",
        "container_port": "containerPort",
    },
):
    """A port of the host that leads to a container."""

    host_ip: Annotated[str, Meta(description="address of the host; empty: all of this family")]
    host_port: Annotated[int, Meta(description="port of the host")]
    protocol: Annotated[str, Meta(description="`tcp`, `udp` or `sctp`")]
    container_ip: Annotated[str, Meta(description="the container's address that it leads to")]
    container_port: Annotated[int, Meta(description="the container's port that it leads to")]


class Bandwidth(Struct, frozen=True, rename="camel"):
    """Rate limits of a container, as in the capability. A direction without a limit is left out."""

    ingress_rate: Annotated[int | UnsetType, Meta(description="bits per second that it can receive")] = UNSET
    ingress_burst: Annotated[int | UnsetType, Meta(description="bits that it can receive at once")] = UNSET
    egress_rate: Annotated[int | UnsetType, Meta(description="bits per second that it can send")] = UNSET
    egress_burst: Annotated[int | UnsetType, Meta(description="bits that it can send at once")] = UNSET


class Masquerade(Struct, frozen=True):
    """Masquerading (NAT) of outgoing traffic to the host's address."""

    ipv4: Annotated[bool, Meta(description="whether IPv4 traffic is masqueraded")]
    ipv6: Annotated[bool, Meta(description="whether IPv6 traffic is masqueraded")]
    inside: Annotated[
        list[str], Meta(description="destinations that see the container's own address, as CIDRs")
    ]


class Facts(Struct, frozen=True):
    """What a plan says; the defaults if it cannot be read."""

    mac: str | None = None
    mtu: int | None = None
    ports: Sequence[HostPort] = ()
    bandwidth: Bandwidth | None = None
    masquerade: Masquerade | None = None
    isolation: Literal["none", "networks", "containers"] = "none"


class _PlanPart(Struct, frozen=True):
    type: str
    name: str = ""
    link: str | None = None
    peer_mac: str | None = None
    mtu: int | None = None
    set: str = ""
    key: Any = ()
    value: Any = None
    verdict: str | None = None
    rules: tuple[str, ...] = ()
    rate: int = 0
    burst: int = 0


class _Plan(Struct, frozen=True):
    objects: list[_PlanPart]
    version: int = VERSION


_decoder = msgspec.json.Decoder(_Plan)


def facts_of(plan: bytes) -> Facts:
    try:
        decoded = _decoder.decode(plan)
        return _said_by(decoded.objects) if decoded.version == VERSION else Facts()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Facts()
    except (ValueError, LookupError, TypeError):  # a key or a value that netloom never writes
        return Facts()


def _said_by(objects: list[_PlanPart]) -> Facts:
    by_type: dict[str, list[_PlanPart]] = {}
    for part in objects:
        by_type.setdefault(part.type, []).append(part)
    elements = by_type.get("nft-element", [])
    veth = next(iter(by_type.get("veth", [])), None)
    return Facts(
        mac=None if veth is None else veth.peer_mac,
        mtu=None if veth is None else veth.mtu,
        ports=[_port(it) for it in elements if it.value is not None and it.set in _PORTS | _PORTS_AT],
        bandwidth=_bandwidth(by_type),
        masquerade=_masquerade(elements, by_type.get("nft-chain", [])),
        isolation=_isolation(elements),
    )


def _port(it: _PlanPart) -> HostPort:
    return HostPort(
        host_ip=it.key[0] if it.set in _PORTS_AT else "",
        host_port=int(it.key[-1]),
        protocol=it.key[-2],
        container_ip=it.value[0],
        container_port=int(it.value[1]),
    )


def _bandwidth(by_type: dict[str, list[_PlanPart]]) -> Bandwidth | None:
    if "shaper" not in by_type:
        return None
    queues = {queue_of(it.link) for it in by_type.get("redirect", ()) if it.link}
    found: dict[str, int] = {}
    for it in by_type["shaper"]:
        direction = "egress" if it.link in queues else "ingress"
        found |= {f"{direction}_rate": it.rate * 8, f"{direction}_burst": it.burst * 8}
    return Bandwidth(**found)


def _masquerade(elements: list[_PlanPart], chains: list[_PlanPart]) -> Masquerade | None:
    leaving = {it.set for it in elements}
    ipv4, ipv6 = _LEAVING4 in leaving, _LEAVING6 in leaving
    if not ipv4 and not ipv6:
        return None
    rules = next((it.rules for it in chains if it.name.startswith(_LEAVE)), ())
    kept = [rule.split()[2] for rule in rules if rule.endswith(" return")]
    return Masquerade(ipv4, ipv6, [cidr for cidr in kept if cidr not in _GROUPS])


def _isolation(elements: list[_PlanPart]) -> Literal["none", "networks", "containers"]:
    for it in elements:
        if it.set == _APART:
            return "containers" if it.verdict == "drop" else "networks"
    return "none"
