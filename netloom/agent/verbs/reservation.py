"""Turns a request into a pending attachment: addresses, link name, plan and result, in one transaction.

It uses only the given ledger, so a dry run is the same code on a copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from ...cni import DNS, AttachmentKey, Result
from ...cni.skel import Request
from ...ipam import SqlHoldings, allocate
from ...journal import Attachment, Ledger, boottime
from ...kernel import Plan
from ...networks.attachment import port_of, readable_plan, readable_result, remnants_of
from ...networks.config import Network
from ...networks.features.options import MappedPort, host_ports
from ...networks.host import Host
from ...networks.modes import mode_named
from ...networks.modes.base import Assigned, Attached
from ...networks.names import names_of
from ...ops.node.namespaces import leads_to
from .errors import KernelRefused, OfNeighbour, OfOrphan, PortOfOrphan, PortTaken


class Wanted(Struct, frozen=True, kw_only=True):
    """A validated ADD."""

    key: AttachmentKey
    network: Network
    netns: str
    netns_device: int
    netns_inode: int
    before: Result | None
    boot_id: str
    host: Host


class Reserved(Struct, frozen=True):
    """A new attachment with its plan and result, or the existing one of the key."""

    attachment: Attachment
    plan: Plan
    result: Result
    is_new: bool = True
    is_readable: bool = True

    def answer(self, version: str) -> bytes:
        """Returns the result in the version of the request's configuration."""
        if version == self.result.cni_version:
            return self.attachment.result
        return self.result.as_version(version).encode()


def wanted_of(
    request: Request, network: Network, identity: tuple[int, int], boot_id: str, *, host: Host
) -> Wanted:
    before = request.prev_result
    return Wanted(
        key=AttachmentKey(request.network, request.container_id, request.ifname),
        network=network,
        netns=request.netns,
        netns_device=identity[0],
        netns_inode=identity[1],
        before=None if before is None else _current(before.as_version("1.1.0")),
        boot_id=boot_id,
        host=host,
    )


def _current(result: object) -> Result:
    assert isinstance(result, Result)
    return result


def _unknown() -> int:
    return 0


def reserve(ledger: Ledger, wanted: Wanted, cookie: Callable[[], int] = _unknown) -> Reserved:
    """Reserves an attachment. `cookie` reads the namespace's cookie, which is seldom needed."""
    found = ledger.find(wanted.key)
    if found is not None:
        return _recorded(ledger, found)
    attached, ips = _attached(ledger, wanted, cookie)
    mode = mode_named(wanted.network.mode)
    result = mode.result(attached, wanted.netns, wanted.before)
    if wanted.network.dns != DNS():
        result = replace(result, dns=wanted.network.dns)
    plan = mode.plan(attached)
    workload = wanted.network.arguments.workload
    attachment = Attachment(
        network=wanted.key.network,
        container_id=wanted.key.container_id,
        ifname=wanted.key.ifname,
        netns=wanted.netns,
        netns_device=wanted.netns_device,
        netns_inode=wanted.netns_inode,
        rank=attached.rank,
        namespace=workload.namespace,
        pod=workload.pod,
        uid=workload.uid,
        config_hash=wanted.network.hash,
        host_link=attached.host_link,
        plan=plan.encode(),
        result=result.encode(),
        boot_id=wanted.boot_id,
        created=boottime(),
        created_at=time.time(),
        mode=mode.name,
        address_scope=wanted.network.scope,
    )
    number = ledger.reserve(attachment, ips, [port_of(port) for port in attached.ports])
    return Reserved(replace(attachment, id=number), plan, result)


def _recorded(ledger: Ledger, found: Attachment) -> Reserved:
    plan, result = readable_plan(found), readable_result(found)
    if plan is None or result is None:
        return Reserved(found, remnants_of(ledger, found), Result(), is_new=False, is_readable=False)
    return Reserved(found, plan, result, is_new=False)


def _attached(ledger: Ledger, wanted: Wanted, cookie: Callable[[], int]) -> tuple[Attached, list[bytes]]:
    network, key = wanted.network, wanted.key
    lacking = wanted.host.lacks(network.pools, network.mtu)
    if lacking is not None:
        raise KernelRefused(lacking.text, lacking.next)
    workload = network.arguments.workload
    named = next(it for number in count() if not ledger.has_link((it := names_of(key, number)).host_link))
    for ip in network.requested:
        orphan = wanted.host.orphan_with(ip, named.host_link)
        if orphan is not None:
            raise OfOrphan(ip, orphan)
        machine = wanted.host.neighbours.get(ip)
        if machine is not None:
            link = machine.link if machine.role == "neighbour" else ""
            raise OfNeighbour(ip, wanted.host.neighbour_with(ip), link)
    own, host = named.host_link, wanted.host
    allocations = allocate(
        network.pools,
        network.requested,
        SqlHoldings(ledger.connection, host.taken(own), host.orphaned(own)),
        scope=network.scope,
        now=boottime(),
        cooldown=network.cooldown,
        identity=(workload.namespace, workload.pod, key.container_id),
    )
    rank = _free_rank(ledger, wanted, cookie)
    default = network.default_route
    if default is None:
        default = rank == 0 and not _has_default(wanted.before)
    addresses = tuple(Assigned.of(it.ip, it.pool.gateway) for it in allocations)
    pools = tuple(pool.cidr for pool in network.pools)
    attached = Attached(
        network=key.network,
        host_link=named.host_link,
        ifname=network.interface,
        mac=network.mac or named.mac,
        mtu=network.mtu or wanted.host.mtu,
        addresses=addresses,
        default=default,
        rank=rank,
        destinations=network.destinations
        if default
        else tuple(dict.fromkeys((*pools, *network.destinations))),
        ipv6=wanted.host.ipv6,
        txqlen=network.txqlen,
        pools=pools,
        masquerade=network.masquerade,
        ports=tuple(_free_ports(ledger, key, host, own, host_ports(network.mappings, addresses))),
        limits=network.limits,
        isolation=network.isolation,
        settings=network.settings,
    )
    return attached, [it.ip for it in allocations]


def _free_ports(
    ledger: Ledger, key: AttachmentKey, host: Host, own: str, wanted: Iterable[MappedPort]
) -> Iterable[MappedPort]:
    """Yields the free ports. Raises `PortTaken` or `PortOfOrphan` for one of another container or link.

    A runtime may request all ports of a container from each of its networks: the first one gets them. `own`
    is the new link: ports that it has from a lost journal are free.
    """
    for port in wanted:
        orphan = host.orphan_with_port(port, own)
        if orphan is not None:
            raise PortOfOrphan(port, orphan)
        holder = ledger.port_holder(port_of(port), key.container_id)
        if holder is None:
            yield port
        elif holder.container_id != key.container_id:
            raise PortTaken(port, holder)


def _free_rank(ledger: Ledger, wanted: Wanted, cookie: Callable[[], int]) -> int:
    """Returns the lowest rank that no interface of the namespace has, ignoring rows of deleted namespaces."""
    device, inode = wanted.netns_device, wanted.netns_inode
    listed = ledger.ranks_in(device, inode)
    if not listed:
        return 0
    own = cookie()
    taken = {
        rank
        for rank, path, known in listed
        if (known == own if known and own else path == wanted.netns or leads_to(path, device, inode))
    }
    return next(number for number in count() if number not in taken)


def _has_default(before: Result | None) -> bool:
    return before is not None and any(route.dst in ("0.0.0.0/0", "::/0") for route in before.routes)
