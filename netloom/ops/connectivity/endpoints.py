"""The ends of a probe: two containers, as the ADD result and the kernel describe them, and the host."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...cni import AnyResult, Result
from ...cni.addresses import is_ipv4
from ...kernel import Namespace, Refused
from ...kernel.errors import ABSENT
from ...kernel.netlink import address, link, route
from ...kernel.values import packed_ip, shown_ip
from ...networks.names import HOST4, HOST6
from .namespaces import run_inside
from .report import FAMILIES, Container, Family

HOST = "host"

NUMBERS: Mapping[Family, socket.AddressFamily] = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


class End(Struct, frozen=True, kw_only=True, eq=False):
    """One end of a probe. `addresses` has one address of each family that the end has."""

    name: str
    namespace: Namespace
    addresses: Mapping[Family, str]
    container_id: str = ""
    ifname: str = ""
    mtu: int = 0
    # Only of a container: the host's end of its link, that end's MAC, and the gateways in the result.
    host_link: str = ""
    host_mac: str = ""
    gateways: Mapping[Family, str] = {}
    # Only of the host: families in which it has only the address of every node, which is never a source.
    borrowed: frozenset[Family] = frozenset()

    @property
    def is_host(self) -> bool:
        return self.name == HOST

    def described(self) -> Container:
        return Container(
            name=self.name,
            container_id=self.container_id,
            netns=self.namespace.name,
            ifname=self.ifname,
            addresses=tuple(self.addresses.values()),
            mtu=self.mtu,
            host_link=self.host_link,
        )


def container(name: str, namespace: Namespace, container_id: str, ifname: str, answer: AnyResult) -> End:
    """The end that an ADD created, from its result."""
    result = answer if isinstance(answer, Result) else answer.as_version("0.4.0")
    assert isinstance(result, Result)
    addresses: dict[Family, str] = {}
    gateways: dict[Family, str] = {}
    for ip in result.ips:
        address = ip.address.partition("/")[0]
        addresses.setdefault(_family(address), address)
    for it in result.routes:
        if it.dst.endswith("/0"):
            gateways.setdefault(_family(it.dst), it.gw)
    own = next((it.name for it in result.interfaces if it.sandbox), ifname)
    theirs = next((it for it in reversed(result.interfaces) if not it.sandbox), None)
    return End(
        name=name,
        namespace=namespace,
        addresses=addresses,
        container_id=container_id,
        ifname=own,
        mtu=mtu_of(namespace, own) or 0,
        host_link=theirs.name if theirs else "",
        host_mac=theirs.mac if theirs else "",
        gateways=gateways,
    )


def mtu_of(namespace: Namespace, name: str) -> int | None:
    """The MTU of a link; None if there is no such link."""

    def ask() -> int | None:
        with Namespace.own() as here:
            try:
                answer = here.route.ask(link.GET, link.get_by_name(name))
            except Refused:
                return None
        return None if answer is None else link.decode(answer).mtu

    return run_inside(namespace, ask)


def _family(address: str) -> Family:
    return "ipv4" if is_ipv4(address.partition("/")[0]) else "ipv6"


_GLOBAL = 0
# How long duplicate detection of an IPv6 address may take, and how often to check.
_SETTLING, _LOOK_EVERY = 3.0, 0.05
# Every netloom node has these: containers reach the host by them if it has no address of its own.
_OF_A_NODE: Mapping[Family, str] = {"ipv4": HOST4, "ipv6": HOST6}
_EVERYTHING_ELSE = 0


class WayOut(Struct, frozen=True):
    """The default route of a family. `gateway` is empty if the route names only a link."""

    link: str
    gateway: str


def host_end(namespace: Namespace, others: Sequence[End], *, is_node: bool) -> End:
    """The host, with the addresses that it would itself use as sources towards the containers, if any."""
    own: dict[Family, str] = {}
    for family in FAMILIES:
        listed = _addresses(namespace, family)
        chosen = (_chosen_for(family, it.addresses[family]) for it in others if family in it.addresses)
        found = next((it for it in chosen if it in listed), listed[0] if listed else "")
        if found:
            own[family] = found
    lent = {family: it for family, it in _OF_A_NODE.items() if is_node and family not in own}
    return End(name=HOST, namespace=namespace, addresses={**own, **lent}, borrowed=frozenset(lent))


def _addresses(namespace: Namespace, family: Family) -> list[str]:
    """Addresses that others can reach. Waits for duplicate detection of those that an ADD just added."""
    deadline = time.monotonic() + _SETTLING
    while True:
        dumped = namespace.route.dump(address.GET, address.of_link(0, NUMBERS[family]))
        found = [it for it in map(address.decode, dumped) if it.scope == _GLOBAL]
        if not any(_is_settling(it) for it in found) or time.monotonic() > deadline:
            break
        time.sleep(_LOOK_EVERY)
    usable = [it.address for it in found if not it.flags & (address.TENTATIVE | address.FAILED)]
    return [it for it in usable if not it.startswith("127.")]


def _is_settling(it: address.AddressRecord) -> bool:
    return bool(it.flags & address.TENTATIVE) and not it.flags & address.FAILED


def _chosen_for(family: Family, target: str) -> str:
    """The source address that the kernel chooses for packets to `target`. Sends nothing."""
    with socket.socket(NUMBERS[family], socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((target, 9))
        except OSError:
            return ""
        return str(asking.getsockname()[0])


def way_out(namespace: Namespace, family: Family) -> WayOut | None:
    try:
        dumped = namespace.route.dump(route.GET, route.of_table(NUMBERS[family], route.MAIN))
    except Refused as refused:
        if refused.errno in ABSENT:
            return None
        raise
    found = [it for it in map(route.decode, filter(route.is_default, dumped)) if it.kind == route.UNICAST]
    best = min(found, key=lambda it: it.priority, default=None)
    if best is None or not best.hops:
        return None
    hop = best.hops[0]
    return WayOut(_name(namespace, hop.index or 0), "" if hop.gateway is None else shown_ip(hop.gateway))


def _name(namespace: Namespace, index: int) -> str:
    try:
        answer = namespace.route.ask(link.GET, link.get(index))
    except Refused:
        return ""
    return "" if answer is None else link.decode(answer).name


class RouteTaken(Struct, frozen=True):
    """The route that packets to an address take. `is_default` if only a default route matches."""

    link: str
    is_default: bool
    is_local: bool


def way_to(namespace: Namespace, target: str) -> RouteTaken | None:
    """The route that the kernel chooses in that namespace; None if there is none."""
    packed = packed_ip(target)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    try:
        answer = namespace.route.ask(route.GET, route.matching(family, packed))
    except Refused as refused:
        if refused.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, *ABSENT):
            return None
        raise
    if answer is None:
        return None
    found = route.decode(answer)
    index = found.hops[0].index or 0 if found.hops else 0
    return RouteTaken(
        link=_name(namespace, index),
        is_default=found.prefix == _EVERYTHING_ELSE,
        is_local=found.kind == route.LOCAL,
    )
