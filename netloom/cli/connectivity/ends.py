"""Who takes part: the two containers, and the host. What each has is the kernel's word, not the result's."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from msgspec import Struct

from ...cni import AnyResult, Result
from ...cni.addresses import is_ipv4
from ...kernel import Namespace, Refused
from ...kernel.netlink import link
from .elsewhere import elsewhere
from .report import Container, Family

HOST = "host"

NUMBERS: Mapping[Family, socket.AddressFamily] = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


class End(Struct, frozen=True, kw_only=True, eq=False):
    """One end of what is tried. Of the host, `addresses` are one of each family that it has."""

    name: str
    namespace: Namespace
    addresses: Mapping[Family, str]
    container_id: str = ""
    ifname: str = ""
    mtu: int = 0
    # Of a container: the host's end of its link, its MAC, and the ways that the result names.
    host_link: str = ""
    host_mac: str = ""
    gateways: Mapping[Family, str] = {}
    # Of the host: families in which it has none but the address that every node has, and speaks from none.
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
    """The end that an ADD has made, by what it answered."""
    result = answer if isinstance(answer, Result) else answer.as_version("0.4.0")
    assert isinstance(result, Result)
    addresses: dict[Family, str] = {}
    gateways: dict[Family, str] = {}
    for ip in result.ips:
        address = ip.address.partition("/")[0]
        addresses.setdefault(_family(address), address)
    for route in result.routes:
        if route.dst.endswith("/0"):
            gateways.setdefault(_family(route.dst), route.gw)
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
    """None if there is no such link."""

    def ask() -> int | None:
        with Namespace.own() as here:
            try:
                answer = here.route.ask(link.GET, link.get_by_name(name))
            except Refused:
                return None
        return None if answer is None else link.decode(answer).mtu

    return elsewhere(namespace, ask)


def _family(address: str) -> Family:
    return "ipv4" if is_ipv4(address.partition("/")[0]) else "ipv6"
