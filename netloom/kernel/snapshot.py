"""A snapshot of a namespace, for bulk checks: which objects are certainly as planned.

An attachment has some twenty objects, and `check` queries the kernel for each of them. For thousands of
attachments, a few lists give the same answers. A snapshot only confirms: if it does not find an object
exactly as planned, or does not list such objects, `check` must decide.

Qdiscs are the exception. The kernel cannot list the qdiscs of one link, only those of all links. So `checked`
compares all of them with one list, and returns the differences.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from .errors import ABSENT, Difference, KernelError, Refused
from .namespace import Namespace
from .netlink import address, link, neighbour, nsid, qdisc, route, rule
from .objects.address import Address
from .objects.base import Object, Scope
from .objects.link import LinkObject
from .objects.link_types import Ifb
from .objects.neighbour import Neighbour
from .objects.route import PROTOCOL, Route
from .objects.rule import Rule, is_equal
from .objects.traffic import Ingress, Shaper
from .objects.up import Up
from .objects.veth import Veth
from .values import family_of, packed_cidr, packed_ip, packed_network, shown_ip

_FAMILIES = {"ipv4": 2, "ipv6": 10}
_ALL_TABLES = 0


class Snapshot:
    """The state of a namespace, where each type of object is listed on its first use.

    Neighbours are listed only on request. The kernel has one table of them for all namespaces and walks all
    of it for each list: 5 ms with 400 containers, where a query for one takes 0.02.
    """

    def __init__(self, namespace: Namespace, *, neighbours: bool = False) -> None:
        self.namespace = namespace
        self._lists_neighbours = neighbours
        self._numbers: dict[tuple[int, int], int] = {}
        self._rules: dict[int, list[rule.RuleRecord]] = {}

    def has(self, item: Object, scope: Scope, other: Snapshot) -> bool:
        """Says whether the object is here exactly as planned. `other` is the snapshot of the scope's other
        namespace.
        """
        try:
            match item:
                case Up():
                    found = self.links.get(item.link)
                    return found is not None and found.up
                case Address():
                    return self._has_address(item)
                case Neighbour() if item.mac is not None and self._lists_neighbours:
                    return self._has_neighbour(item, item.mac)
                case Route():
                    return self._has_route(item)
                case Rule():
                    return any(is_equal(item, one) for one in self._rules_of(_FAMILIES[item.family]))
                case Veth() if item.peer_on != item.on:
                    return self._has_veth(item, scope, other)
                case Ifb():
                    link_found = self.links.get(item.name)
                    return link_found is not None and not (
                        item.ownership_conflicts(link_found) or item.plan_differences(link_found, scope)
                    )
                case Ingress() | Shaper():
                    return self.checked(item) == []
        except KernelError:  # `check` will report more about it
            pass
        return False

    def checked(self, item: Object) -> list[Difference] | None:
        """Returns what `check` would, for objects that one list fully covers; None: use `check`."""
        if not isinstance(item, Ingress | Shaper):
            return None
        found = self.links.get(item.link)  # another link may have our name as an alternative name
        return None if found is None else item.compared(self._qdiscs.get(found.index, ()))

    @cached_property
    def _qdiscs(self) -> dict[int, list[qdisc.Qdisc]]:
        """Returns the qdiscs by the index of their link."""
        listed: dict[int, list[qdisc.Qdisc]] = defaultdict(list)
        for found in map(qdisc.decode, self.namespace.route.dump(qdisc.GET, qdisc.of_link(0))):
            listed[found.index].append(found)
        return listed

    @cached_property
    def links(self) -> dict[str, link.Link]:
        """Returns the links by name."""
        listed = self.namespace.route.dump(link.GET, link.everything())
        return {found.name: found for found in map(link.decode, listed)}

    @cached_property
    def _indexes(self) -> dict[str, int]:
        return {name: found.index for name, found in self.links.items()}

    @cached_property
    def addresses(self) -> dict[int, list[address.AddressRecord]]:
        """Returns the addresses by the index of their link."""
        listed: dict[int, list[address.AddressRecord]] = defaultdict(list)
        for found in map(address.decode, self.namespace.route.dump(address.GET, address.of_link(0))):
            listed[found.index].append(found)
        return listed

    @cached_property
    def _neighbours(self) -> dict[tuple[int, bytes | None], neighbour.NeighbourRecord]:
        listed = self.namespace.route.dump(neighbour.GET, neighbour.everything(0))
        return {(found.index, found.address): found for found in map(neighbour.decode, listed)}

    @cached_property
    def _routes(self) -> dict[tuple[bytes, int, int], list[route.RouteRecord]]:
        """Our routes by destination and table. A container may have hundreds of thousands of others."""
        found: dict[tuple[bytes, int, int], list[route.RouteRecord]] = defaultdict(list)
        for family in _FAMILIES.values():
            try:
                listed = self.namespace.route.dump(
                    route.GET, route.of_table(family, _ALL_TABLES, protocol=PROTOCOL)
                )
            except Refused as refused:
                if refused.errno not in ABSENT:
                    raise
                continue
            for one in map(route.decode, listed):
                found[one.destination, one.prefix, one.table].append(one)
        return found

    def _rules_of(self, family: int) -> list[rule.RuleRecord]:
        if family not in self._rules:
            listed = self.namespace.route.dump(rule.GET, rule.everything(family))
            self._rules[family] = [rule.decode(payload) for payload in listed]
        return self._rules[family]

    def _has_address(self, item: Address) -> bool:
        found = self.links.get(item.link)
        listed = () if found is None else self.addresses.get(found.index, ())
        packed, prefix = packed_cidr(item.address)
        wanted = shown_ip(packed)
        return any(
            one.address == wanted and one.prefix == prefix and not item.compared(one) for one in listed
        )

    def _has_neighbour(self, item: Neighbour, mac: str) -> bool:
        found = self.links.get(item.link)
        if found is None:
            return False
        one = self._neighbours.get((found.index, packed_ip(item.address)))
        return one is not None and one.mac == mac and bool(one.state & neighbour.PERMANENT)

    def _has_route(self, item: Route) -> bool:
        packed, prefix = packed_network(item.destination)
        return any(
            item.is_same(one, self._indexes, self.namespace)
            for one in self._routes.get((packed, prefix, item.table), ())
            if one.family == family_of(packed)
        )

    def _has_veth(self, item: Veth, scope: Scope, other: Snapshot) -> bool:
        found, peer = self.links.get(item.name), other.links.get(item.peer)
        if found is None or peer is None or peer.kind != "veth":
            return False
        if (found.parent, peer.parent) != (peer.index, found.index):
            return False
        if found.parent_netnsid is None or found.parent_netnsid != self._number_of(other.namespace):
            return False
        wanted = ((item.peer_mac, peer.mac), (item.mtu, peer.mtu), (item.txqlen, peer.txqlen))
        if any(one is not None and one != there for one, there in wanted):
            return False
        return not item.ownership_conflicts(found) and not LinkObject.plan_differences(item, found, scope)

    def _number_of(self, other: Namespace) -> int | None:
        """Returns the ID by which this namespace knows another."""
        if other.identity not in self._numbers:
            answer = self.namespace.route.ask(nsid.GET, nsid.of(other.fileno()))
            self._numbers[other.identity] = nsid.ANY if answer is None else nsid.decode(answer)
        return self._numbers[other.identity]
