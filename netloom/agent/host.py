"""What an attachment has to know of the host that it is made on."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from ..ipam import Pool
from ..kernel import Namespace
from ..kernel.errors import InvalidObject, Refused
from ..kernel.neighbourhood import Machine, machines_on
from ..kernel.netlink import address, link
from ..kernel.uplink import Uplink, uplink
from ..kernel.values import IPV6_MTU, packed_ip
from ..modes.names import PREFIX
from ..modes.wanted import HostPort

DEFAULT_MTU = 1500
_IPV6 = "/proc/sys/net/ipv6"
RESOLVERS = "/etc/resolv.conf"


_WORDS = {
    "gateway": "the host's gateway on {link}",
    "resolver": "the host's DNS server on {link}",
    "neighbour": "a machine on {link}",
}


class Lack(Struct, frozen=True):
    """What a network needs and this host does not have; and what to do about it."""

    text: str
    next: str

    def __str__(self) -> str:
        return f"{self.text}: {self.next}"


class Host(Struct, frozen=True):
    """`addresses` are its own: no container may get one of them, since nobody could reach it.

    `ipv6` is whether the kernel has it at all, `ipv6_switch` the setting that keeps it from new links.
    `orphans` are links of ours that no attachment has, each with the addresses that are routed to it: a
    container may use them, so they stay reserved. So do `orphan_ports`, the ports of the host that lead to
    an orphan, each with its link. `neighbours` are machines beside the host, by address: a container with
    the address of one would take it from the host, as the host's route to it is narrower.
    """

    mtu: int = DEFAULT_MTU
    uplink: str = ""
    ipv6: bool = True
    ipv6_switch: str = ""
    addresses: frozenset[bytes] = frozenset()
    orphans: Mapping[str, frozenset[bytes]] = {}
    orphan_ports: Sequence[tuple[HostPort, str]] = ()
    neighbours: Mapping[bytes, Machine] = {}

    @property
    def reserved(self) -> frozenset[bytes]:
        """Addresses that are not given because of the host: its own, and those of its neighbours."""
        return self.addresses.union(self.neighbours) if self.neighbours else self.addresses

    def taken(self, own: str = "") -> frozenset[bytes]:
        """Addresses that are not given. What is routed to `own`, which is made anew, is not among them."""
        return self.reserved | self.orphaned(own) if self.orphans else self.reserved

    def orphaned(self, own: str = "") -> frozenset[bytes]:
        """Those of them that are routed to orphans."""
        return frozenset().union(*(ips for link, ips in self.orphans.items() if link != own))

    def neighbour_with(self, ip: bytes) -> str:
        """Who beside the host has an address, for people; empty: no machine that is known."""
        found = self.neighbours.get(ip)
        return "" if found is None else _WORDS[found.role].format(link=found.link)

    def orphan_with(self, ip: bytes, own: str = "") -> str | None:
        """The orphan that an address is routed to."""
        return next((link for link, ips in self.orphans.items() if ip in ips and link != own), None)

    def orphan_with_port(self, wanted: HostPort, own: str = "") -> str | None:
        """The orphan that a port of the host leads to. A port of all addresses is in the way of any."""
        for port, holder in self.orphan_ports:
            if holder == own or holder not in self.orphans or port.is_ipv6 != wanted.is_ipv6:
                continue
            is_same = (port.protocol, port.host_port) == (wanted.protocol, wanted.host_port)
            if is_same and ("" in (port.host_ip, wanted.host_ip) or port.host_ip == wanted.host_ip):
                return holder
        return None

    def lacks(self, pools: Sequence[Pool], mtu: int | None) -> Lack | None:
        """Why no container can have addresses of these pools here; None if one can."""
        pool = next((pool.cidr for pool in pools if pool.family == 6), None)
        if pool is None:
            return None
        if not self.ipv6:
            return Lack(
                f"this kernel has no IPv6, which pool {pool} needs",
                "start it without ipv6.disable=1, or remove the pool from the network",
            )
        if self.ipv6_switch:
            return Lack(
                f"IPv6, which pool {pool} needs, is switched off on this host ({self.ipv6_switch} is 1)",
                f"switch it on (sysctl -w {self.ipv6_switch}=0), or remove the pool from the network",
            )
        if (mtu or self.mtu) < IPV6_MTU:
            return Lack(
                f"the host's way out, {self.uplink}, takes packets of {self.mtu} bytes, and pool {pool} "
                f"needs {IPV6_MTU}, as all IPv6",
                f"raise its MTU, give the network an `mtu` of {IPV6_MTU}, or remove the pool from the "
                "network",
            )
        return None


def look_at(namespace: Namespace) -> Host:
    way_out = uplink(namespace)
    found = [
        address.decode(payload)
        for family in (socket.AF_INET, socket.AF_INET6)
        for payload in namespace.route.dump(address.GET, address.of_link(0, family))
    ]
    own = frozenset(packed_ip(it.address) for it in found)
    links = _links(namespace, {it.index for it in found}, way_out)
    return Host(
        mtu=DEFAULT_MTU if way_out is None else way_out.mtu,
        uplink="" if way_out is None else way_out.link,
        ipv6=os.path.exists(f"{_IPV6}/conf"),
        ipv6_switch=_ipv6_switch(namespace),
        addresses=own,
        neighbours={ip: it for ip, it in _neighbours(namespace, found, links).items() if ip not in own},
    )


def _links(namespace: Namespace, indexes: Iterable[int], way_out: Uplink | None) -> dict[int, str]:
    """Links that other machines are on: those with an address, and the way out. Never containers'."""
    found: dict[int, str] = {}
    for index in indexes:
        with suppress(Refused):  # it went just now
            answer = namespace.route.ask(link.GET, link.get(index))
            if answer is not None:
                found[index] = link.decode(answer).name
    if way_out is not None and way_out.link not in found.values():
        with suppress(Refused):
            found[namespace.route.index(way_out.link)] = way_out.link
    return {index: name for index, name in found.items() if name != "lo" and not name.startswith(PREFIX)}


def _neighbours(
    namespace: Namespace, addresses: Sequence[address.Address], links: Mapping[int, str]
) -> dict[bytes, Machine]:
    """Of whom the most is known counts: a gateway may be a resolver and in the neighbour table, too."""
    on_links = [it for it in addresses if it.index in links]
    far_ends = {packed_ip(it.peer): Machine("neighbour", links[it.index]) for it in on_links if it.peer}
    machines = {**far_ends, **machines_on(namespace, links)}
    for ip in resolvers():
        name = next((links[it.index] for it in on_links if _is_on_subnet(ip, it)), None)
        if name is not None and (ip not in machines or machines[ip].role == "neighbour"):
            machines[ip] = Machine("resolver", name)
    return machines


def _is_on_subnet(ip: bytes, of: address.Address) -> bool:
    near = packed_ip(of.peer or of.address)
    bits = len(near) * 8 - of.prefix
    return len(ip) == len(near) and int.from_bytes(ip, "big") >> bits == int.from_bytes(near, "big") >> bits


def resolvers(path: str = RESOLVERS) -> list[bytes]:
    """The host's DNS servers; none if nobody can tell."""
    found = []
    with suppress(OSError), open(path, errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) > 1 and words[0] == "nameserver":
                with suppress(InvalidObject):
                    found.append(packed_ip(words[1].partition("%")[0]))
    return found


def _ipv6_switch(namespace: Namespace) -> str:
    """A new link has what `default` says. To write `all` writes `default`, too, which may differ later."""
    with namespace.entered():
        if not _is_off("default"):
            return ""
        return f"net.ipv6.conf.{'all' if _is_off('all') else 'default'}.disable_ipv6"


def _is_off(where: str) -> bool:
    try:
        with open(f"{_IPV6}/conf/{where}/disable_ipv6") as file:
            return file.read().strip() != "0"
    except FileNotFoundError:  # a kernel without IPv6 has no switch for it
        return False
