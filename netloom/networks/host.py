"""The properties of the host on which an attachment depends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..ipam import Pool
from ..kernel.uplink import Machine
from ..kernel.values import IPV6_MTU
from .features.options import MappedPort

DEFAULT_MTU = 1500

# The sysctls that make the host forward packets, by address family.
FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}

_WORDS = {
    "gateway": "the host's gateway on {link}",
    "resolver": "the host's DNS server on {link}",
    "neighbour": "a machine on {link}",
    "remote": "a machine on {link}, by a host route,",
}


class Lack(Struct, frozen=True):
    """What a network needs and this host lacks (`text`), and what to do about it (`next`)."""

    text: str
    next: str

    def __str__(self) -> str:
        return f"{self.text}: {self.next}"


class Host(Struct, frozen=True):
    """`addresses` are the host's own. No container may get one of them: it would be unreachable.

    `ipv6` is whether the kernel supports IPv6, `ipv6_switch` the sysctl that disables it on new links.
    `orphans` are links of netloom that belong to no attachment, each with the addresses that are routed to
    it. A container may use them, so they stay reserved, as do `orphan_ports`: host ports that lead to an
    orphan, each with its link. `neighbours` are other machines on the host's networks, by address. A
    container with such an address would hide the machine from the host, as its route is more specific.
    """

    mtu: int = DEFAULT_MTU
    uplink: str = ""
    ipv6: bool = True
    ipv6_switch: str = ""
    addresses: frozenset[bytes] = frozenset()
    orphans: Mapping[str, frozenset[bytes]] = {}
    orphan_ports: Sequence[tuple[MappedPort, str]] = ()
    neighbours: Mapping[bytes, Machine] = {}

    @property
    def reserved(self) -> frozenset[bytes]:
        """The addresses of the host and its neighbours, which are never assigned."""
        return self.addresses.union(self.neighbours) if self.neighbours else self.addresses

    def taken(self, own: str = "") -> frozenset[bytes]:
        """Returns all unavailable addresses, except those routed to `own`, a link to be recreated."""
        return self.reserved | self.orphaned(own) if self.orphans else self.reserved

    def orphaned(self, own: str = "") -> frozenset[bytes]:
        """Returns the addresses that are routed to orphans other than `own`."""
        return frozenset().union(*(ips for link, ips in self.orphans.items() if link != own))

    def neighbour_with(self, ip: bytes) -> str:
        """Describes the neighbour that has an address; empty if no known machine has it."""
        found = self.neighbours.get(ip)
        return "" if found is None else _WORDS[found.role].format(link=found.link)

    def orphan_with(self, ip: bytes, own: str = "") -> str | None:
        """Returns the orphan to which an address is routed."""
        return next((link for link, ips in self.orphans.items() if ip in ips and link != own), None)

    def orphan_with_port(self, wanted: MappedPort, own: str = "") -> str | None:
        """Returns the orphan to which a host port leads. A port on all addresses conflicts with any."""
        for port, holder in self.orphan_ports:
            if holder == own or holder not in self.orphans or port.is_ipv6 != wanted.is_ipv6:
                continue
            is_same = (port.protocol, port.host_port) == (wanted.protocol, wanted.host_port)
            if is_same and ("" in (port.host_ip, wanted.host_ip) or port.host_ip == wanted.host_ip):
                return holder
        return None

    def lacks(self, pools: Sequence[Pool], mtu: int | None) -> Lack | None:
        """Returns why containers on this host cannot use addresses of these pools; None if they can."""
        pool = next((pool.cidr for pool in pools if pool.family == 6), None)
        if pool is None:
            return None
        if not self.ipv6:
            return Lack(
                f"this kernel has no IPv6, which pool {pool} needs",
                "boot it without ipv6.disable=1, or remove the pool from the network",
            )
        if self.ipv6_switch:
            return Lack(
                f"IPv6, which pool {pool} needs, is switched off on this host ({self.ipv6_switch} is 1)",
                f"switch it on (sysctl -w {self.ipv6_switch}=0), or remove the pool from the network",
            )
        if (mtu or self.mtu) < IPV6_MTU:
            return Lack(
                f"pool {pool} is IPv6, which needs an MTU of {IPV6_MTU}, but the host's uplink {self.uplink} "
                f"has an MTU of {self.mtu}",
                f"raise its MTU, set the network's `mtu` to {IPV6_MTU}, or remove the pool from the network",
            )
        return None
