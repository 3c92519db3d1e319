"""The way out of a namespace, and the largest packet that it takes.

What leaves a container leaves the host by its default route, so a container's MTU must fit that.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

from msgspec import Struct

from .errors import ABSENT, Refused
from .namespace import Namespace
from .netlink import link, route

# Root servers, whose addresses have not moved for decades and are nobody's own. Nothing is sent to
# them: the kernel is asked which way it would go.
_FAR_AWAY: dict[int, bytes] = {
    socket.AF_INET: socket.inet_pton(socket.AF_INET, "198.41.0.4"),
    socket.AF_INET6: socket.inet_pton(socket.AF_INET6, "2001:503:ba3e::2:30"),
}


class Uplink(Struct, frozen=True):
    """A link that leads out, and what fits it: its MTU, or that of the route by it if it is smaller."""

    link: str
    mtu: int


def uplink(namespace: Namespace) -> Uplink | None:
    """The narrowest of the links that the default routes of both families use; None without any.

    Of several default routes of a family, the kernel uses the one with the lowest metric whose link is
    up; of its hops, all.
    """
    ways = [way for family in _FAR_AWAY for way in _ways(namespace, family)]
    return min(ways, key=lambda way: way.mtu, default=None)


def uplink_of(namespace: Namespace, family: int) -> Uplink | None:
    """The narrowest link of one family's default route; None without one."""
    return min(_ways(namespace, family), key=lambda way: way.mtu, default=None)


def gateway_of(namespace: Namespace, family: int, index: int) -> bytes | None:
    """The gateway of a family's default route by a link; None if the route has none."""
    found = _default_route(namespace, family)
    hops = () if found is None else found.hops
    return next((hop.gateway for hop in hops if hop.index == index), None)


def _ways(namespace: Namespace, family: int) -> Iterator[Uplink]:
    found = _default_route(namespace, family)
    for hop in () if found is None else found.hops:
        try:
            payload = namespace.route.ask(link.GET, link.get(hop.index or 0))
        except Refused as refused:
            if refused.errno in ABSENT:  # it went just now
                continue
            raise
        if payload is not None:
            way = link.decode(payload)
            mtus = [mtu for mtu in (way.mtu, found and found.mtu) if mtu]
            if mtus:
                yield Uplink(way.name, min(mtus))


def _default_route(namespace: Namespace, family: int) -> route.Route | None:
    """By a lookup (0.02 ms). Only where a narrower route answers, by a list (10 ms at 10,000 routes)."""
    try:
        answer = namespace.route.ask(route.GET, route.matching(family, _FAR_AWAY[family]))
        found = None if answer is None else route.decode(answer)
        if found is not None and _leads_out(found):
            return found
    except Refused as refused:
        if refused.errno == errno.ENETUNREACH:
            return None
    try:
        listed = namespace.route.dump(route.GET, route.of_table(family, route.MAIN))
    except Refused as refused:
        if refused.errno in ABSENT:  # there was never a route
            return None
        raise
    defaults = [one for one in map(route.decode, filter(route.is_default, listed)) if _leads_out(one)]
    return min(defaults, key=lambda one: one.priority, default=None)


def _leads_out(found: route.Route) -> bool:
    return found.prefix == 0 and found.kind == route.UNICAST
