"""Findings about addresses: whether one more container would get any, whether the counts add up, and whether
another machine has the same address.

A pool that overlaps a network of the host is a warning: part of that network may be reserved for containers.
Addresses that a pool excludes do not count, nor do the host's own, which no container ever gets.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ...api.findings import Finding, remedy_of
from ...ipam import Pool, Shortage, SqlHoldings, would_allocate
from ...journal import Attachment, Ledger, boottime
from ...kernel import KernelError, Namespace
from ...kernel.errors import ABSENT, Refused
from ...kernel.netlink import address, link, route
from ...kernel.values import packed_ip, shown_ip
from ...networks.config import Network
from ...networks.host import Host
from ...networks.names import PREFIX, SCOPE
from ..node.networks import FILE

# A pool is nearly exhausted when attachments hold this part of the addresses that containers can have.
_NEARLY = 0.9


def shortage_of(network: Network, host: Host, ledger: Ledger) -> Shortage | None:
    """Returns the shortage of addresses that one more container would meet."""
    return would_allocate(
        network.pools,
        SqlHoldings(ledger.connection, host.taken(), host.orphaned()),
        scope=network.scope,
        now=boottime(),
        cooldown=network.cooldown,
    )


def exhausted(network: str, path: str, pools: Iterable[str], shortage: Shortage) -> Finding:
    wait = "" if shortage.ready_in is None else "wait until addresses have rested, "
    return Finding(
        code="pool-exhausted",
        subject=network,
        text=f"nothing can be attached to {network} now: {shortage}",
        next=f"{wait}detach something (`netloom gc --dry-run` lists leaks), or give the network another "
        f"pool: {another_pool(network, path, pools)}",
    )


def nearly_exhausted(
    network: str, path: str, pools: Iterable[str], used: Sequence[tuple[str, int, int]]
) -> Finding | None:
    """`used` are the pools of one family: CIDR, number of assignable addresses, number of held ones."""
    capacity, held = sum(it[1] for it in used), sum(it[2] for it in used)
    if not capacity or held < capacity * _NEARLY:
        return None
    names = ", ".join(it[0] for it in used)
    return Finding(
        code="pool-nearly-exhausted",
        severity="warning",
        subject=network,
        text=f"network {network} has few addresses left: {held} of {capacity} in {names} are held",
        next=f"give the network another pool before it is used up: {another_pool(network, path, pools)}",
    )


def another_pool(network: str, path: str, pools: Iterable[str]) -> str:
    """Says how to add a pool: by `netloom up` if it writes the file, otherwise by an edit.

    `netloom up` replaces all pools by those that it is given, so the command names the old ones, too.
    """
    if os.path.basename(path) != FILE:
        return f'add {{"cidr": "NEW_CIDR"}} to `pools` in {path}'
    options = " ".join(f"--pool {cidr}" for cidr in (*pools, "NEW_CIDR"))
    return f"`netloom up --network {network} {options}`"


def address_orphaned(ip: bytes) -> Finding:
    shown = shown_ip(ip)
    return Finding(
        code="address-orphaned",
        subject=shown,
        text=f"{shown} is held by an attachment that does not exist",
        next=remedy_of("address-orphaned"),
    )


def miscounted(cidr: str, held: int, resting: int, capacity: int) -> Finding:
    return Finding(
        code="pool-miscounted",
        subject=cidr,
        text=f"{cidr}: the journal counts {held} held and {resting} resting addresses of {capacity}, but "
        "its rows differ",
        next=remedy_of("pool-miscounted"),
    )


CLASH = "address-clash"


def clashes(ledger: Ledger, host: Host) -> list[Finding]:
    """Returns a finding for each address; an error if the other machine is the host's gateway or DNS."""
    found = []
    for ip, number in ledger.holders(SCOPE, host.reserved).items():
        attachment = ledger.by_id(number)
        machine = host.neighbours.get(ip)
        if machine is not None and machine.role == "remote" and ip not in host.addresses:
            continue  # a route replaces the container's own, which is a `route-diverted`
        if attachment is not None:
            found.append(_of_own(attachment, ip) if ip in host.addresses else _of_other(attachment, ip, host))
    return found


def _of_own(attachment: Attachment, ip: bytes) -> Finding:
    return Finding(
        code=CLASH,
        subject=shown_ip(ip),
        text=f"{attachment.key} has {shown_ip(ip)}, and this host has it, too: packets for the container "
        "stay on the host",
        next=f"remove the address from the host (`ip address show to {shown_ip(ip)}` names the link), or "
        "detach the container and attach it again",
    )


def _of_other(attachment: Attachment, ip: bytes, host: Host) -> Finding:
    return Finding(
        code=CLASH,
        severity="warning" if host.neighbours[ip].role == "neighbour" else "error",
        subject=shown_ip(ip),
        text=f"{attachment.key} has {shown_ip(ip)}, and {host.neighbour_with(ip)} has it, too: "
        "this host reaches the container instead",
        next=remedy_of(CLASH),
    )


# VPNs write a default route as two halves, 0.0.0.0/1 and 128.0.0.0/1.
_DEFAULT = 1
_SHOWN = 3
# Offset of a route's protocol, which says who made it, in struct rtmsg: of thousands, nearly all are ours.
_PROTOCOL_AT = 5


class HostNetwork(Struct, frozen=True):
    """A network that the host reaches by `link`; `is_near` if without a router in between."""

    packed: bytes
    prefix: int
    link: str
    is_near: bool

    def __str__(self) -> str:
        return f"{shown_ip(self.packed)}/{self.prefix}" + (f" on {self.link}" if self.link else "")

    def overlaps(self, pool: Pool) -> bool:
        """Ignores a network behind a router that contains the whole pool: it summarizes many networks."""
        if len(self.packed) != pool.width or (not self.is_near and self.prefix < pool.prefix):
            return False
        first = int.from_bytes(self.packed, "big")
        last = first | (1 << pool.width * 8 - self.prefix) - 1
        return any(low <= last and first <= high for low, high in pool.usable)


def overlap_warnings(pools: Iterable[Pool], networks: Sequence[HostNetwork]) -> list[str]:
    return [f"{it.text}; {it.next}" for it in overlaps(pools, networks)]


def overlaps(pools: Iterable[Pool], networks: Sequence[HostNetwork]) -> list[Finding]:
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
    """Returns the networks of the calling thread's namespace, each once; none if the kernel fails."""
    try:
        with Namespace.own() as host:
            links = _Links(host)
            found = [*_of_addresses(host, links), *_of_routes(host, links)]
    except KernelError:
        return []
    # A link's address and the route to its network give the same entry.
    return list({(it.packed, it.prefix, it.link): it for it in found}.values())


class _Links(dict[int, str]):
    """Names of links by index, read one by one: nearly all links of a busy host are ours."""

    def __init__(self, host: Namespace) -> None:
        self._host = host

    def __missing__(self, index: int) -> str:
        name = ""
        try:
            answer = self._host.route.ask(link.GET, link.get(index)) if index else None
            name = "" if answer is None else link.decode(answer).name
        except Refused as refused:
            if refused.errno not in ABSENT:  # it was deleted just now
                raise
        self[index] = name
        return name


def _of_addresses(host: Namespace, links: _Links) -> Iterator[HostNetwork]:
    """Includes links that are down and have no route yet."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for payload in host.route.dump(address.GET, address.of_link(0, family)):
            found = address.decode(payload)
            ip = packed_ip(found.peer or found.address)
            if found.prefix < len(ip) * 8 and not links[found.index].startswith(PREFIX):
                yield HostNetwork(_masked(ip, found.prefix), found.prefix, links[found.index], True)


def _of_routes(host: Namespace, links: _Links) -> Iterator[HostNetwork]:
    """Reads the main table, without netloom's routes."""
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
