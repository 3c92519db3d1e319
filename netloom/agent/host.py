"""What an attachment has to know of the host that it is made on."""

from __future__ import annotations

import os
import socket

from msgspec import Struct

from ..kernel import Namespace
from ..kernel.netlink import address
from ..kernel.uplink import uplink
from ..kernel.values import packed_ip

DEFAULT_MTU = 1500


class Host(Struct, frozen=True):
    """`addresses` are its own: no container may get one of them, since nobody could reach it."""

    mtu: int = DEFAULT_MTU
    ipv6: bool = True
    addresses: frozenset[bytes] = frozenset()


def look_at(namespace: Namespace) -> Host:
    way_out = uplink(namespace)
    found = [
        address.decode(payload).address
        for family in (socket.AF_INET, socket.AF_INET6)
        for payload in namespace.route.dump(address.GET, address.of_link(0, family))
    ]
    return Host(
        mtu=DEFAULT_MTU if way_out is None else way_out.mtu,
        ipv6=os.path.exists("/proc/sys/net/ipv6"),
        addresses=frozenset(packed_ip(text) for text in found),
    )
