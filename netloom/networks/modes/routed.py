"""The routed mode: a pair of links, and routes on both sides. No bridge, and nobody asks for a MAC.

The container has its addresses alone on its link (/32, /128), and sends everything to a next hop that
exists nowhere else: 169.254.1.1 and fe80::1. The host knows by a route which link leads to which address.
Both ends are told the other's MAC. So the first packet need not wait for an answer, and the kernel's tables
of neighbours, which all containers of a machine share, do not fill up.

The host's end has no address of its own. With one on every end, the kernel would walk through all of them
whenever a link comes up: 2 ms for each ADD at 1,000 attachments.

The order of a plan is its safety: what a container may send is written into the node's table before the
link is there, and router advertisements are off before it is up. None ever crosses the wire, in neither
direction: the table sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...cni import IP, Interface, Result
from ...cni import Route as ResultRoute
from ...kernel import (
    Address,
    AnyObject,
    Ifb,
    Neighbour,
    NftElement,
    Object,
    Plan,
    Route,
    Rule,
    Sysctl,
    Up,
    Veth,
)
from ...kernel.values import IPV6_MTU, shown_ip
from .. import table
from ..features import bandwidth as limits
from ..features import isolation, masquerade, ports
from ..features.sysctls import setting
from ..features.wanted import HostPort, Isolation, Limits, Masquerade
from ..names import HOST_MAC, queue_of
from ..table import HOST4

GATEWAY4 = HOST4
GATEWAY6 = "fe80::1"

_EVERYTHING = ("0.0.0.0/0", "::/0")
# In the container: tables of interfaces that do not have the default route, and the rules that lead there.
_TABLES = 7800


class Assigned(Struct, frozen=True):
    """An address as text, and the next hop of whoever has it."""

    ip: str
    next_hop: str

    @classmethod
    def of(cls, ip: bytes, gateway: bytes | None = None) -> Assigned:
        """With the gateway of its pool, or the one that every link has."""
        usual = GATEWAY4 if len(ip) == 4 else GATEWAY6
        return cls(shown_ip(ip), usual if gateway is None else shown_ip(gateway))

    @property
    def is_ipv4(self) -> bool:
        return ":" not in self.ip

    @property
    def cidr(self) -> str:
        return f"{self.ip}/32" if self.is_ipv4 else f"{self.ip}/128"


class Attached(Struct, frozen=True, kw_only=True):
    """One interface as it is to be. `rank` counts the container's interfaces; the first has 0.

    Without `default`, traffic from its own addresses still leaves by it, and so does what is for
    `destinations`; everything else takes another way. `pools` are the ranges of its network.
    """

    network: str
    host_link: str
    ifname: str
    mac: str
    mtu: int
    addresses: tuple[Assigned, ...]
    default: bool = True
    rank: int = 0
    destinations: tuple[str, ...] = ()
    ipv6: bool = True
    txqlen: int | None = None
    pools: tuple[str, ...] = ()
    masquerade: Masquerade | None = None
    ports: tuple[HostPort, ...] = ()
    limits: Limits = Limits()
    isolation: Isolation = "none"
    settings: tuple[tuple[str, str], ...] = ()


def plan(it: Attached) -> Plan:
    objects = _in_the_table(it)
    objects.append(
        Veth(
            it.host_link,
            it.ifname,
            mac=HOST_MAC,
            peer_mac=it.mac,
            mtu=it.mtu,
            txqlen=it.txqlen,
            peer_on="attachment",
        )
    )
    if it.ipv6 and it.mtu >= IPV6_MTU:
        # Of the host's end only. To look for a setting in a container's namespace leaves a trace of it in
        # one list of the kernel's, which every later look at any setting walks through.
        objects.append(Sysctl(f"net/ipv6/conf/{it.host_link}/accept_ra", "0"))
    objects += limits.objects(it.limits, it.host_link, it.mtu)
    objects.append(Up("lo", stay=True, on="attachment"))
    objects += [Up(it.host_link, link_local=False), Up(it.ifname, on="attachment")]
    objects += [
        Address(it.ifname, address.cidr, switch_on=not address.is_ipv4, on="attachment")
        for address in it.addresses
    ]
    for next_hop in dict.fromkeys(address.next_hop for address in it.addresses):
        objects.append(Neighbour(it.ifname, next_hop, HOST_MAC, on="attachment"))
    objects += _ways_out(it)
    for address in it.addresses:
        objects += [Neighbour(it.host_link, address.ip, it.mac), Route(address.cidr, link=it.host_link)]
    objects += [setting(path, value, it.ifname) for path, value in it.settings]
    return Plan(tuple(objects))  # type: ignore[arg-type]


def _in_the_table(it: Attached) -> list[Object]:
    """All elements in a row, and so in one transaction; before them, what they lead to."""
    objects: list[Object] = []
    elements = [_source(it.host_link, address) for address in it.addresses]
    if it.masquerade is not None:
        leave = masquerade.chain(it.masquerade, it.pools)
        leaving = masquerade.elements(leave, it.masquerade, [address.ip for address in it.addresses])
        objects += [leave] if leaving else []
        elements += leaving
    keep_apart = isolation.chain(it.isolation, it.network)
    objects += [] if keep_apart is None else [keep_apart]
    elements += isolation.elements(it.isolation, keep_apart, it.host_link)
    elements += ports.elements(it.ports)
    return [*objects, *elements]


def remnants(host_link: str, ifname: str, ips: Iterable[bytes] = (), rank: int = 0) -> Plan:
    """What has to go of an attachment whose plan is lost, if it is there.

    All else goes with its links, or is an element that no attachment has, which whoever looks after the table
    takes away.
    """
    addresses = [Assigned.of(ip) for ip in ips]
    elements = [_source(host_link, address) for address in addresses]
    rules = [_rule(address, rank) for address in addresses]
    links = (Ifb(queue_of(host_link)), Veth(host_link, ifname, mac=HOST_MAC, peer_on="attachment"))
    return Plan((*elements, *links, *rules))


def _source(host_link: str, address: Assigned) -> NftElement:
    return table.element(table.SOURCES[not address.is_ipv4], host_link, address.ip)


def _ways_out(it: Attached) -> list[Object]:
    objects: list[Object] = []
    for ipv4 in (True, False):
        of_family = [address for address in it.addresses if address.is_ipv4 == ipv4]
        if not of_family:
            continue
        via = of_family[0].next_hop
        everything = _EVERYTHING[0] if ipv4 else _EVERYTHING[1]
        if it.default:
            objects.append(_way(it, everything, via))
        objects += [_way(it, to, via) for to in it.destinations if (":" not in to) == ipv4]
        if not it.default:
            table = _TABLES + it.rank
            objects.append(_way(it, everything, via, table=table))
            objects += [_rule(address, it.rank) for address in of_family]
    return objects


def _rule(address: Assigned, rank: int) -> Rule:
    """What is sent from an address leaves by the link that has it."""
    family: Literal["ipv4", "ipv6"] = "ipv4" if address.is_ipv4 else "ipv6"
    table = _TABLES + rank
    return Rule(priority=table, family=family, table=table, source=address.cidr, on="attachment")


def _way(it: Attached, to: str, via: str, *, table: int = 254) -> Route:
    metric = 0 if it.default or table != 254 else it.rank
    return Route(to, link=it.ifname, via=via, onlink=True, metric=metric, table=table, on="attachment")


def with_mac(made: Plan, mac: str) -> Plan:
    """The plan of an interface to which somebody has given another MAC."""

    def changed(item: AnyObject) -> AnyObject:
        if isinstance(item, Veth):
            return replace(item, peer_mac=mac)
        return replace(item, mac=mac) if isinstance(item, Neighbour) and item.on == "host" else item

    return Plan(tuple(map(changed, made.objects)))


def result(it: Attached, netns: str, before: Result | None = None) -> Result:
    """What ADD answers, without DNS: what the plugins before ours made, and then ours."""
    before = before or Result()
    index = len(before.interfaces) + 1
    interfaces = (
        Interface(it.host_link, mac=HOST_MAC, mtu=it.mtu),
        Interface(it.ifname, mac=it.mac, mtu=it.mtu, sandbox=netns),
    )
    ips = tuple(IP(address.cidr, gateway=address.next_hop, interface=index) for address in it.addresses)
    routes: list[ResultRoute] = []
    for ipv4 in (True, False):
        via = next((address.next_hop for address in it.addresses if address.is_ipv4 == ipv4), None)
        if via is not None:
            everything = ["0.0.0.0/0" if ipv4 else "::/0"] if it.default else []
            family = [to for to in it.destinations if (":" not in to) == ipv4]
            routes += [ResultRoute(to, gw=via) for to in everything + family]
    return Result(
        interfaces=(*before.interfaces, *interfaces),
        ips=(*before.ips, *ips),
        routes=(*before.routes, *routes),
        dns=before.dns,
    )
