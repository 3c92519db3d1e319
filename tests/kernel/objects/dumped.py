"""What stands in a namespace, asked without a process: one costs a quarter of a second in an emulator.

On the machine's kernel, iproute2 and nft say the same (`listed`), and do not share our decoders.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from msgspec.structs import replace

from netloom.kernel import Namespace
from netloom.kernel.netlink import address, bridge_vlan, link, neighbour, qdisc, route, rule, wireguard
from netloom.kernel.netlink import filter as filters

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_OF_THE_KERNEL = (socket.AF_INET6, 2)
_OWN = (route.LOCAL, 4, 5)  # and anycast, multicast


def lines(namespace: Namespace) -> list[str]:
    ask = namespace.route.dump
    links = [link.decode(found) for found in ask(link.GET, link.everything())]
    qdiscs = [qdisc.decode(found) for found in ask(qdisc.GET, qdisc.of_link(0))]
    hooked = [one.index for one in qdiscs if one.parent == qdisc.INGRESS]
    switched = [one.index for one in links if "bridge" in (one.kind, one.port_kind)]
    things: Iterable[object] = (
        *(replace(one, data=None, port=None) for one in links),
        *map(address.decode, ask(address.GET, address.of_link(0))),
        *(one for family in _FAMILIES for one in _routes(namespace, family)),
        *(rule.decode(found) for family in _FAMILIES for found in ask(rule.GET, rule.everything(family))),
        *(neighbour.decode(found) for question in _QUESTIONS for found in ask(neighbour.GET, question)),
        *(one for one in qdiscs if one.handle),
        *(filters.decode(found) for index in hooked for found in ask(filters.GET, filters.of_link(index))),
        *((index, one) for index in switched for one in bridge_vlan.of_link(namespace.route, index)),
        *(wireguard.read_device(namespace.generic, one.index) for one in links if one.kind == "wireguard"),
    )
    return [repr(thing) for thing in things if _is_set(thing)] + namespace.nft.run(
        "list ruleset"
    ).splitlines()


_QUESTIONS = (
    *map(neighbour.everything, (*_FAMILIES, neighbour.AF_BRIDGE)),
    *map(neighbour.proxies, _FAMILIES),
)


def _routes(namespace: Namespace, family: int) -> list[route.RouteRecord]:
    listed = map(route.decode, namespace.route.dump(route.GET, route.everything(family)))
    return [replace(one, flags=one.flags & route.ONLINK) for one in listed]


def _is_set(thing: object) -> bool:
    """Not a thing that the kernel makes itself: and at times later: a link's MACs, addresses, groups."""
    if isinstance(thing, route.RouteRecord):
        return (thing.family, thing.protocol) != _OF_THE_KERNEL or thing.kind not in _OWN
    if isinstance(thing, neighbour.NeighbourRecord):
        if thing.family == neighbour.AF_BRIDGE:
            return not thing.state & neighbour.PERMANENT or thing.address is not None
        return not thing.state & neighbour.NOARP
    return True
