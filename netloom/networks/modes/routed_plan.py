"""The objects of the routed mode: a veth pair, with routes on both sides. There is no bridge and no ARP.

The container's link has only its own addresses (/32, /128), and the container sends everything to a next
hop that exists on this link only: 169.254.1.1 and fe80::1. The host has a route to each address. Both ends
have permanent neighbour entries with the other's MAC, so that the first packet need not wait for an answer,
and the kernel's neighbour tables, which all containers of a machine share, do not fill up.

The host's end has no address. If every end had one, the kernel would iterate over all of them whenever a link
comes up: 2 ms for each ADD at 1,000 attachments.

The order of a plan matters for security: the node's table has the container's source addresses before the
link exists, and router advertisements are disabled before it is up. The table drops router advertisements in
both directions.
"""

from __future__ import annotations

from typing import Literal

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
from ...kernel.values import IPV6_MTU, packed_network
from .. import table
from ..features import bandwidth as limits
from ..features import isolation, masquerade, ports
from ..features.sysctls import setting
from ..names import HOST_MAC, queue_of
from .base import Assigned, Attached, Lost
from .routed import GATEWAY4, GATEWAY6

_EVERYTHING = ("0.0.0.0/0", "::/0")
# In the container: routing tables of interfaces without the default route, and priorities of their rules.
_TABLES = 7800


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
        # On the host's end only. A look-up of a sysctl in a container's namespace adds an entry to a list in
        # the kernel that every later look-up of any sysctl traverses.
        objects.append(Sysctl(f"net/ipv6/conf/{it.host_link}/accept_ra", "0"))
    objects += limits.objects(it.limits, it.host_link, it.mtu)
    objects.append(Up("lo", stay=True, on="attachment"))
    objects += [Up(it.host_link, link_local=False), Up(it.ifname, on="attachment")]
    objects += [
        Address(it.ifname, address.cidr, switch_on=not address.is_ipv4, on="attachment")
        for address in it.addresses
    ]
    for next_hop in dict.fromkeys(map(_next_hop, it.addresses)):
        objects.append(Neighbour(it.ifname, next_hop, HOST_MAC, on="attachment"))
    objects += _ways_out(it)
    for address in it.addresses:
        objects += [Neighbour(it.host_link, address.ip, it.mac), Route(address.cidr, link=it.host_link)]
    objects += [setting(path, value, it.ifname) for path, value in it.settings]
    return Plan(tuple(objects))  # type: ignore[arg-type]


def _in_the_table(it: Attached) -> list[Object]:
    """Returns all elements in sequence, so that they are one transaction, after the chains they lead to."""
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


def remnants(it: Lost) -> Plan:
    """Everything else is deleted with the links, or is an orphaned element that the agent collects."""
    addresses = [Assigned.of(ip) for ip in it.ips]
    elements = [_source(it.host_link, address) for address in addresses]
    rules = [_rule(address, it.rank) for address in addresses]
    links = (Ifb(queue_of(it.host_link)), Veth(it.host_link, it.ifname, mac=HOST_MAC, peer_on="attachment"))
    return Plan((*elements, *links, *rules))


def addresses(plan: Plan) -> list[bytes]:
    """Returns the addresses to which the host has a route."""
    routes = (it for it in plan.objects if isinstance(it, Route) and it.on == "host")
    return [packed_network(it.destination)[0] for it in routes]


def _next_hop(address: Assigned) -> str:
    """Returns the gateway of the pool, or the default next hop."""
    return address.gateway or (GATEWAY4 if address.is_ipv4 else GATEWAY6)


def _source(host_link: str, address: Assigned) -> NftElement:
    return table.element(table.SOURCES[not address.is_ipv4], host_link, address.ip)


def _ways_out(it: Attached) -> list[Object]:
    objects: list[Object] = []
    for ipv4 in (True, False):
        of_family = [address for address in it.addresses if address.is_ipv4 == ipv4]
        if not of_family:
            continue
        via = _next_hop(of_family[0])
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
    """Routes packets from an address by the link that has it."""
    family: Literal["ipv4", "ipv6"] = "ipv4" if address.is_ipv4 else "ipv6"
    table = _TABLES + rank
    return Rule(priority=table, family=family, table=table, source=address.cidr, on="attachment")


def _way(it: Attached, to: str, via: str, *, table: int = 254) -> Route:
    metric = 0 if it.default or table != 254 else it.rank
    return Route(to, link=it.ifname, via=via, onlink=True, metric=metric, table=table, on="attachment")


def with_mac(made: Plan, mac: str) -> Plan:
    def changed(item: AnyObject) -> AnyObject:
        if isinstance(item, Veth):
            return replace(item, peer_mac=mac)
        return replace(item, mac=mac) if isinstance(item, Neighbour) and item.on == "host" else item

    return Plan(tuple(map(changed, made.objects)))


def result(it: Attached, netns: str, before: Result | None = None) -> Result:
    before = before or Result()
    index = len(before.interfaces) + 1
    interfaces = (
        Interface(it.host_link, mac=HOST_MAC, mtu=it.mtu),
        Interface(it.ifname, mac=it.mac, mtu=it.mtu, sandbox=netns),
    )
    ips = tuple(IP(address.cidr, gateway=_next_hop(address), interface=index) for address in it.addresses)
    routes: list[ResultRoute] = []
    for ipv4 in (True, False):
        via = next((_next_hop(address) for address in it.addresses if address.is_ipv4 == ipv4), None)
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
