"""The traffic that containers need, as model packets at every hook that it passes."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ...api.findings import Severity
from ...kernel import Namespace, Refused
from ...kernel.errors import ABSENT
from ...kernel.netfilter.field import Field, joined
from ...kernel.netfilter.packet import (
    ARP_REPLY,
    ARP_REQUEST,
    DNAT,
    ESTABLISHED,
    ICMPV6,
    LOCAL,
    MULTICAST,
    NEIGHBOUR_ADVERTISEMENT,
    NEIGHBOUR_SOLICITATION,
    NEW,
    SNAT,
    TCP,
    UNICAST,
    UNTRACKED,
    Hook,
    Layer,
    Packet,
    PacketLink,
)
from ...kernel.netfilter.rules import BaseChain
from ...kernel.netlink import address, link
from ...kernel.netlink.message import ip_text
from ...kernel.uplink import gateway_of, uplink_of
from ...networks.names import HOST4, HOST6, PREFIX

Family: TypeAlias = Literal[4, 6]

# Any two links of containers. No link of the host has such an index.
CONTAINERS = f"{PREFIX}*"
_ONE, _OTHER = PacketLink(f"{PREFIX}00000000001", 0x7FFFFFF1), PacketLink(f"{PREFIX}00000000002", 0x7FFFFFF2)
# Root servers: no host and no container has their addresses.
_FAR_AWAY: Mapping[Family, str] = {4: "198.41.0.4", 6: "2001:503:ba3e::2:30"}
_LENT: Mapping[Family, str] = {4: HOST4, 6: HOST6}
_SOCKET_FAMILIES: Mapping[Family, int] = {4: 2, 6: 10}
_GLOBAL = 0

FORWARDED: tuple[Hook, ...] = ("ingress", "prerouting", "forward", "postrouting", "egress")
TO_HOST: tuple[Hook, ...] = ("ingress", "prerouting", "input")
FROM_HOST: tuple[Hook, ...] = ("output", "postrouting", "egress")

# Priorities at which the kernel starts to track connections, and at which it translates addresses.
_TRACKED, _DNAT, _SNAT = -200, -95, 100


class Traffic(Struct, frozen=True):
    """A kind of traffic. `severity` is that of a finding about a firewall that drops all of it."""

    what: str
    severity: Severity


BETWEEN = Traffic("traffic between containers", "error")
OUT = Traffic("traffic from containers to the outside", "error")
PORTS = Traffic("traffic from the outside to host ports", "warning")
INTO_HOST = Traffic("traffic from containers to the host", "warning")
OF_HOST = Traffic("traffic from the host to containers", "error")
ASKING = Traffic("IPv6 neighbour discovery from the host to its gateway", "error")
ASKED = Traffic("IPv6 neighbour discovery from the gateway to the host", "error")
ASKING_ARP = Traffic("ARP from the host to its gateway", "error")
ASKED_ARP = Traffic("ARP from the gateway to the host", "error")


class Flow(Struct, frozen=True, kw_only=True):
    """Packets of one kind and one direction. `pool` names the containers for people.

    `arrives_for` is the destination before translation, and `leaves_from` the source after it; None if the
    kernel does not translate it. `links` are the containers' links, as a pattern of nft.
    """

    traffic: Traffic
    family: Family
    pool: str
    hooks: tuple[Hook, ...]
    source: Field
    destination: Field
    iif: PacketLink | None = None
    oif: PacketLink | None = None
    source_type: int = UNICAST
    destination_type: int = UNICAST
    protocol: int = TCP
    ports: tuple[Field, Field] = (Field.open(2), Field.open(2))
    icmp: int | None = None
    arp: int | None = None
    is_reply: bool = False
    nat: int = 0
    arrives_for: Field | None = None
    leaves_from: Field | None = None
    # Until translation, packets of the host to a host port are for the loopback, which `output` sees.
    through: PacketLink | None = None
    links: str = CONTAINERS

    def at(self, hook: Hook, priority: int) -> Packet:
        """Returns the packet as a chain with this priority at a hook sees it."""
        source, destination, destination_type = self.source, self.destination, self.destination_type
        oif = self.through or self.oif if hook == "output" else self.oif
        is_before = hook == "ingress" or (hook in ("prerouting", "output") and priority < _DNAT)
        is_behind = hook == "egress" or (hook == "postrouting" and priority > _SNAT)
        if is_before and self.arrives_for is not None:
            destination, destination_type = self.arrives_for, LOCAL
        if is_behind and self.leaves_from is not None:
            source = self.leaves_from
        return Packet(
            family=self.family,
            hook=hook,
            iif=None if hook in ("output", "egress") or "output" in self.hooks else self.iif,
            oif=None if hook in ("ingress", "prerouting", "input") else oif,
            source=source,
            destination=destination,
            source_type=self.source_type,
            destination_type=destination_type,
            protocol=self.protocol,
            ports=self.ports,
            icmp=self.icmp,
            arp=self.arp,
            state=self.state,
            is_tracked=hook != "ingress" and (hook not in ("prerouting", "output") or priority > _TRACKED),
            is_reply=self.is_reply,
            nat=self.nat,
        )

    def at_link(self, base: BaseChain, links: Sequence[PacketLink]) -> Iterator[Flow]:
        """Yields the flow for each link of an `ingress` or `egress` chain by which it can enter or leave.

        `links` are those of the host. A flow of any container can use each of the containers' links.
        """
        end = "iif" if base.hook == "ingress" else "oif"
        own: PacketLink | None = getattr(self, end)
        if own is None:
            return
        if base.is_of(own.name):
            yield self
        elif own == _ONE:
            for it in links:
                if it.name.startswith(PREFIX) and base.is_of(it.name):
                    yield replace(self, **{end: it})

    @property
    def resolves(self) -> bool:
        """Whether it resolves neighbours on the uplink, and does not involve containers."""
        return self.traffic in (ASKING, ASKED, ASKING_ARP, ASKED_ARP)

    @property
    def layer(self) -> Layer:
        return self.family if self.arp is None else "arp"

    @property
    def state(self) -> int:
        return UNTRACKED if self.resolves else ESTABLISHED if self.is_reply else NEW

    def answered(self) -> Flow:
        """Returns the answers. The kernel translates a connection in both directions."""
        back = {"input": FROM_HOST, "output": TO_HOST}
        hooks = next((back[it] for it in self.hooks if it in back), FORWARDED)
        return Flow(
            traffic=self.traffic,
            family=self.family,
            pool=self.pool,
            hooks=hooks,
            source=self.destination,
            destination=self.source,
            iif=self.oif,
            oif=self.iif,
            source_type=self.destination_type,
            destination_type=self.source_type,
            protocol=self.protocol,
            ports=self.ports[::-1],
            icmp=_ANSWERS.get(self.icmp) if self.icmp is not None else None,
            is_reply=True,
            nat=self.nat,
            arrives_for=self.leaves_from,
            leaves_from=self.arrives_for,
            links=self.links,
        )


_ANSWERS = {8: 0, 128: 129}


class Around(Struct, frozen=True):
    """The facts of a node that determine which traffic it has.

    `pools` are CIDRs, with whether their containers may talk to each other; `has_ports` is whether a
    container has a host port. `gateways` are those of uplinks on which neighbours have to be resolved; empty
    if the default route has none.
    """

    pools: tuple[tuple[str, bool], ...]
    uplinks: tuple[tuple[Family, PacketLink], ...]
    addresses: tuple[tuple[Family, str], ...]
    gateways: tuple[tuple[Family, str], ...]
    has_ports: bool


def around(host: Namespace, pools: Iterable[tuple[str, bool]], *, has_ports: bool) -> Around:
    """Reads these facts. `pools` are CIDRs, with whether their networks isolate containers."""
    shared: dict[str, bool] = {}
    for cidr, keeps_apart in pools:
        shared[cidr] = shared.get(cidr, False) or not keeps_apart
    families: tuple[Family, ...] = (4, 6)
    uplinks: list[tuple[Family, PacketLink]] = []
    gateways: list[tuple[Family, str]] = []
    for family in families:
        found = uplink_of(host, _SOCKET_FAMILIES[family])
        if found is not None and not found.link.startswith(PREFIX):
            try:
                way, resolves = _link(host, found.link)
                uplinks.append((family, way))
                if resolves:
                    gateway = gateway_of(host, _SOCKET_FAMILIES[family], way.index)
                    gateways.append((family, "" if gateway is None else ip_text(gateway)))
            except Refused:  # it was deleted meanwhile
                continue
    return Around(
        pools=tuple(sorted(shared.items())),
        uplinks=tuple(uplinks),
        addresses=tuple((it, _address(host, it, dict(uplinks).get(it))) for it in families),
        gateways=tuple(gateways),
        has_ports=has_ports,
    )


def _link(host: Namespace, name: str) -> tuple[PacketLink, bool]:
    """Returns the link, and whether neighbours have to be resolved on it."""
    answer = host.route.ask(link.GET, link.get_by_name(name))
    if answer is None:
        raise Refused(errno.ENODEV, context=f"link {name}")
    found = link.decode(answer)
    return PacketLink(found.name, found.index, found.hardware), found.resolves


def links_of(host: Namespace) -> list[PacketLink]:
    """Returns the links of containers."""
    listed = map(link.decode_entry, host.route.dump(link.GET, link.everything()))
    return [PacketLink(it.name, it.index) for it in listed if it.name.startswith(PREFIX)]


def _address(host: Namespace, family: Family, uplink: PacketLink | None) -> str:
    """Returns an address by which containers reach the host: the uplink's, if it has one."""
    try:
        listed = host.route.dump(address.GET, address.of_link(0, _SOCKET_FAMILIES[family]))
    except Refused as refused:
        if refused.errno not in ABSENT:
            raise
        listed = []
    found = [it for it in map(address.decode, listed) if it.scope == _GLOBAL]
    best = next((it for it in found if uplink is not None and it.index == uplink.index), None)
    chosen = best or next(iter(found), None)
    return _LENT[family] if chosen is None else chosen.address


def flows_of(it: Around, link_of_one: str = "") -> Iterator[Flow]:
    """Yields flows of all containers, or of the one with this link."""
    one = PacketLink(link_of_one, _ONE.index) if link_of_one else _ONE
    uplinks, addresses = dict(it.uplinks), dict(it.addresses)
    for cidr, may_talk in it.pools:
        network = ipaddress.ip_network(cidr, strict=False)
        family: Family = 4 if network.version == 4 else 6
        shown = _shown(network)
        own, host = Field.network(network), field_of(addresses[family])
        asked: list[Flow] = []
        if may_talk:
            asked.append(
                Flow(
                    traffic=BETWEEN,
                    family=family,
                    pool=shown,
                    hooks=FORWARDED,
                    source=own,
                    destination=own,
                    iif=one,
                    oif=_OTHER,
                )
            )
        if family in uplinks:
            asked += _outside(family, shown, own, one, uplinks[family], has_ports=it.has_ports)
        asked.append(
            Flow(
                traffic=INTO_HOST,
                family=family,
                pool=shown,
                hooks=TO_HOST,
                source=own,
                destination=host,
                iif=one,
                destination_type=LOCAL,
            )
        )
        asked.append(
            Flow(
                traffic=OF_HOST,
                family=family,
                pool=shown,
                hooks=FROM_HOST,
                source=host,
                destination=own,
                oif=one,
                source_type=LOCAL,
            )
        )
        for flow in asked:
            yield flow
            yield flow.answered()
    yield from neighbours_of(it)


def neighbours_of(it: Around) -> Iterator[Flow]:
    """Yields the neighbour discovery between host and gateway, which all traffic to the outside needs."""
    uplinks, addresses, gateways = dict(it.uplinks), dict(it.addresses), dict(it.gateways)
    for cidr, _ in it.pools:
        network = ipaddress.ip_network(cidr, strict=False)
        family: Family = 4 if network.version == 4 else 6
        if family not in gateways:
            continue
        shown, uplink, gateway = _shown(network), uplinks[family], gateways[family]
        if family == 4 and ":" not in gateway:  # a route of IPv4 may have a gateway of IPv6
            yield from _arp(shown, uplink, addresses[4], gateway)
        else:
            yield from _discovery(shown, uplink, addresses[6], gateway)


def _arp(shown: str, uplink: PacketLink, own: str, gateway: str) -> Iterator[Flow]:
    """Yields requests and replies in both directions."""
    here, there = field_of(own), field_of(gateway) if gateway else Field.open(4)
    for operation in (ARP_REQUEST, ARP_REPLY):
        sent = Flow(
            traffic=ASKING_ARP,
            family=4,
            pool=shown,
            hooks=("output", "egress"),
            source=here,
            destination=there,
            oif=uplink,
            arp=operation,
        )
        yield sent
        yield replace(
            sent,
            traffic=ASKED_ARP,
            hooks=("ingress", "input"),
            source=there,
            destination=here,
            iif=uplink,
            oif=None,
        )


def _discovery(shown: str, uplink: PacketLink, own: str, gateway: str) -> Iterator[Flow]:
    """Yields solicitations and advertisements in both directions. A host may use any of its addresses."""
    anything = Field.open(16)
    question = Flow(
        traffic=ASKING,
        family=6,
        pool=shown,
        hooks=FROM_HOST,
        source=anything,
        destination=_solicited(gateway),
        oif=uplink,
        source_type=LOCAL,
        destination_type=MULTICAST,
        protocol=ICMPV6,
        icmp=NEIGHBOUR_SOLICITATION,
    )
    answer = replace(question, destination=anything, destination_type=UNICAST, icmp=NEIGHBOUR_ADVERTISEMENT)
    for sent, destination, kind in ((question, _solicited(own), MULTICAST), (answer, anything, LOCAL)):
        yield sent
        yield replace(
            sent,
            traffic=ASKED,
            hooks=TO_HOST,
            destination=destination,
            iif=uplink,
            oif=None,
            source_type=UNICAST,
            destination_type=kind,
        )


def _solicited(address_of: str) -> Field:
    """Returns the multicast group for solicitations of an address (RFC 4291, 2.7.1)."""
    prefix = Field.of(ipaddress.ip_address("ff02::1:ff00:0").packed[:13])
    return joined(prefix, field_of(address_of).part(13, 3) if address_of else Field.open(3))


def _shown(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _outside(
    family: Family, shown: str, own: Field, one: PacketLink, uplink: PacketLink, *, has_ports: bool
) -> Iterator[Flow]:
    far, anything = field_of(_FAR_AWAY[family]), Field.open(own.size)
    yield Flow(
        traffic=OUT,
        family=family,
        pool=shown,
        hooks=FORWARDED,
        source=own,
        destination=far,
        iif=one,
        oif=uplink,
        nat=SNAT,
        leaves_from=anything,
    )
    if has_ports:
        yield Flow(
            traffic=PORTS,
            family=family,
            pool=shown,
            hooks=FORWARDED,
            source=far,
            destination=own,
            iif=uplink,
            oif=one,
            nat=DNAT,
            arrives_for=anything,
        )


def field_of(ip: str) -> Field:
    return Field.of(ipaddress.ip_address(ip).packed)
