"""Pools that overlap a network of the host: a container and a machine there may get the same address.

That is no error, since a part of the host's network may have been set aside for containers. What a pool
excludes does not count, nor does an address of the host alone, which no container ever gets.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ..api.findings import Finding
from ..ipam import Pool
from ..kernel import KernelError, Namespace
from ..kernel.errors import ABSENT, Refused
from ..kernel.netlink import address, link, route
from ..kernel.values import packed_ip, shown_ip
from ..networks.names import PREFIX

# VPNs write a default route as two halves, 0.0.0.0/1 and 128.0.0.0/1.
_DEFAULT = 1
_SHOWN = 3
# In what the kernel says of a route (struct rtmsg), who made it: of thousands, nearly all are ours.
_PROTOCOL_AT = 5


class HostNetwork(Struct, frozen=True):
    """Where it leads, and whether its machines are on the link itself, without a router between."""

    packed: bytes
    prefix: int
    link: str
    is_near: bool

    def __str__(self) -> str:
        return f"{shown_ip(self.packed)}/{self.prefix}" + (f" on {self.link}" if self.link else "")

    def overlaps(self, pool: Pool) -> bool:
        """By way of a router, a network that holds the whole pool is a summary of many; it says nothing."""
        if len(self.packed) != pool.width or (not self.is_near and self.prefix < pool.prefix):
            return False
        first = int.from_bytes(self.packed, "big")
        last = first | (1 << pool.width * 8 - self.prefix) - 1
        return any(low <= last and first <= high for low, high in pool.usable)


def warnings_of(pools: Iterable[Pool], networks: Sequence[HostNetwork]) -> list[str]:
    return [f"{it.text}; {it.next}" for it in findings_of(pools, networks)]


def findings_of(pools: Iterable[Pool], networks: Sequence[HostNetwork]) -> list[Finding]:
    found = []
    for pool in pools:
        shown = [str(it) for it in networks if it.overlaps(pool)]
        if shown:
            more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            found.append(
                Finding(
                    code="pool-overlap",
                    severity="warning",
                    subject=pool.cidr,
                    text=f"pool {pool.cidr} overlaps {', '.join(shown[:_SHOWN])}{more} of this host: a "
                    "container and a machine there may have the same address",
                    next="exclude that part, or choose another pool",
                )
            )
    return found


def host_networks() -> list[HostNetwork]:
    """Those of the calling thread's namespace, each once; none if the kernel does not tell."""
    try:
        with Namespace.own() as host:
            links = _Links(host)
            found = [*_of_addresses(host, links), *_of_routes(host, links)]
    except KernelError:
        return []
    # A link's address and the route to its network say the same.
    return list({(it.packed, it.prefix, it.link): it for it in found}.values())


class _Links(dict[int, str]):
    """Names by number, asked for one by one: nearly all links of a busy host are ours."""

    def __init__(self, host: Namespace) -> None:
        self._host = host

    def __missing__(self, index: int) -> str:
        name = ""
        try:
            answer = self._host.route.ask(link.GET, link.get(index)) if index else None
            name = "" if answer is None else link.decode(answer).name
        except Refused as refused:
            if refused.errno not in ABSENT:  # it went just now
                raise
        self[index] = name
        return name


def _of_addresses(host: Namespace, links: _Links) -> Iterator[HostNetwork]:
    """Also of links that are down, and have no route yet."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for payload in host.route.dump(address.GET, address.of_link(0, family)):
            found = address.decode(payload)
            ip = packed_ip(found.peer or found.address)
            if found.prefix < len(ip) * 8 and not links[found.index].startswith(PREFIX):
                yield HostNetwork(_masked(ip, found.prefix), found.prefix, links[found.index], True)


def _of_routes(host: Namespace, links: _Links) -> Iterator[HostNetwork]:
    """Of the main table, but ours."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for payload in _dumped(host, family):
            if payload[_PROTOCOL_AT] == route.PROTOCOL:
                continue
            found = route.decode(payload)
            if found.kind != route.UNICAST or found.prefix <= _DEFAULT:
                continue
            names = [links[hop.index or 0] for hop in found.hops]
            if not any(name.startswith(PREFIX) for name in names):
                near = all(hop.gateway is None for hop in found.hops)
                yield HostNetwork(found.destination, found.prefix, ", ".join(filter(None, names)), near)


def _dumped(host: Namespace, family: int) -> list[bytes]:
    try:
        return host.route.dump(route.GET, route.of_table(family, route.MAIN))
    except Refused as refused:
        if refused.errno in ABSENT:  # there was never a route
            return []
        raise


def _masked(ip: bytes, prefix: int) -> bytes:
    bits = len(ip) * 8 - prefix
    return (int.from_bytes(ip, "big") >> bits << bits).to_bytes(len(ip), "big")
