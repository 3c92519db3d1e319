"""Addresses of other machines that a namespace reaches without a router: its gateways and its neighbours.

Nothing is sent. The kernel's routes say who the gateways are, and its neighbour table who has answered. Both
are asked for link by link: so the kernel passes over the routes and neighbours of thousands of other links
(0.5 ms a link at 5,000 attachments, where listing all of them takes 19 ms).
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import ABSENT, Refused
from .namespace import Namespace
from .netlink import neighbour, nexthop, route

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_EVERY_TABLE = 0
# Of entries that somebody answered for, lately or some time ago, or that an operator has set.
_ANSWERED = neighbour.REACHABLE | neighbour.STALE | neighbour.DELAY | neighbour.PROBE | neighbour.PERMANENT

Role: TypeAlias = Literal["gateway", "neighbour", "resolver", "routed"]


class Machine(Struct, frozen=True):
    """Who has an address, and on which link. `routed`: only a host route of another program says so."""

    role: Role
    link: str


def machines_on(namespace: Namespace, links: Mapping[int, str]) -> dict[bytes, Machine]:
    """By address, those on the given links, which have their indexes as keys; without link-local ones."""
    found: dict[bytes, Machine] = {}
    for index, name in links.items():
        for family in _FAMILIES:
            found.update((ip, Machine("neighbour", name)) for ip in _answered(namespace, family, index))
    for index in links:
        for family in _FAMILIES:
            for ip, role, at in _routed(namespace, family, index):
                if at in links and (role == "gateway" or ip not in found):
                    found[ip] = Machine(role, links[at])
    for hop in _next_hops(namespace):
        if hop.gateway is not None and hop.index is not None and hop.index in links:
            found[hop.gateway] = Machine("gateway", links[hop.index])
    return {ip: it for ip, it in found.items() if not _is_link_local(ip)}


def _answered(namespace: Namespace, family: int, index: int) -> Iterator[bytes]:
    for payload in _dumped(namespace, neighbour.GET, neighbour.of_link(family, index)):
        found = neighbour.decode(payload)
        if found.state & _ANSWERED and found.address and found.mac:
            yield found.address


def _routed(namespace: Namespace, family: int, index: int) -> Iterator[tuple[bytes, Role, int]]:
    """Gateways of all routes by a link, in every table; and machines on it that have a route of their own."""
    for payload in _dumped(namespace, route.GET, route.of_table(family, _EVERY_TABLE, index)):
        found = route.decode(payload)
        if found.kind != route.UNICAST or found.protocol == route.PROTOCOL or found.flags & route.CLONED:
            continue
        for hop in found.hops:
            if hop.gateway is not None:
                yield hop.gateway, "gateway", hop.index or 0
            elif found.prefix == len(found.destination) * 8:
                yield found.destination, "routed", hop.index or 0


def _next_hops(namespace: Namespace) -> list[nexthop.NextHop]:
    """Routes may name them by number alone (the sysctl nexthop_compat_mode)."""
    return [nexthop.decode(it) for it in _dumped(namespace, nexthop.GET, nexthop.everything())]


def _dumped(namespace: Namespace, kind: int, question: bytes) -> list[bytes]:
    try:
        return namespace.route.dump(kind, question)
    except Refused as refused:
        if refused.errno in ABSENT or refused.errno == errno.EOPNOTSUPP:  # nothing is there, or can be
            return []
        raise


def _is_link_local(ip: bytes) -> bool:
    return len(ip) == 16 and ip[0] == 0xFE and ip[1] & 0xC0 == 0x80
