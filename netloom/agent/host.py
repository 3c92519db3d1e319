"""What an attachment has to know of the host that it is made on."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..ipam import Pool
from ..kernel import Namespace
from ..kernel.netlink import address
from ..kernel.uplink import uplink
from ..kernel.values import IPV6_MTU, packed_ip

DEFAULT_MTU = 1500
_IPV6 = "/proc/sys/net/ipv6"


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
    container may use them, so nobody else gets them.
    """

    mtu: int = DEFAULT_MTU
    uplink: str = ""
    ipv6: bool = True
    ipv6_switch: str = ""
    addresses: frozenset[bytes] = frozenset()
    orphans: Mapping[str, frozenset[bytes]] = {}

    def taken(self, own: str = "") -> frozenset[bytes]:
        """Addresses that are not given. What is routed to `own`, which is made anew, is not among them."""
        return self.addresses | self.orphaned(own) if self.orphans else self.addresses

    def orphaned(self, own: str = "") -> frozenset[bytes]:
        """Those of them that are routed to orphans."""
        return frozenset().union(*(ips for link, ips in self.orphans.items() if link != own))

    def orphan_with(self, ip: bytes, own: str = "") -> str | None:
        """The orphan that an address is routed to."""
        return next((link for link, ips in self.orphans.items() if ip in ips and link != own), None)

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
        address.decode(payload).address
        for family in (socket.AF_INET, socket.AF_INET6)
        for payload in namespace.route.dump(address.GET, address.of_link(0, family))
    ]
    return Host(
        mtu=DEFAULT_MTU if way_out is None else way_out.mtu,
        uplink="" if way_out is None else way_out.link,
        ipv6=os.path.exists(f"{_IPV6}/conf"),
        ipv6_switch=_ipv6_switch(namespace),
        addresses=frozenset(packed_ip(text) for text in found),
    )


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
