"""Settings of the kernel with which what containers send is dropped.

Whether a setting hurts is not guessed: the kernel is asked which way a packet would take that came in by a
link. Nothing is sent. It says no way at all where it does not forward, and that the link is the wrong one
where reverse-path filtering would drop the packet.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

from ...api.findings import Finding
from ...kernel import KernelError, Namespace, Route
from ...kernel.errors import Refused
from ...kernel.netlink import link, route
from ...kernel.values import packed_network
from ...ops.health.kernel import forwarding_off
from ...ops.node.ways import FAR_AWAY, FILTERED, way
from .boot_settings import path_of, undone_at_boot
from .ground import Ground

_IPV4, _IPV6 = "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack_"
# Of the connections that the kernel can remember, this part is in use.
_NEARLY = 0.9


def look(ground: Ground) -> Iterator[Finding]:
    yield from _conntrack()
    if not ground.is_node:
        return
    off = [name for name in _needed(ground) if _read(name) == "0"]
    for name in off:
        yield forwarding_off(name)
    yield from undone_at_boot(_needed(ground))
    if _IPV4 not in off:
        yield from _dropped(ground)


def _needed(ground: Ground) -> list[str]:
    """By the families of the pools; on a node without any, of IPv4."""
    families = {pool.family for pool in ground.pools} or {4}
    return [name for name, family in ((_IPV4, 4), (_IPV6, 6)) if family in families]


def _read(name: str) -> str:
    try:
        with open(path_of(name)) as file:
            return file.read().strip()
    except OSError:
        return ""


def _of_link(name: str, setting: str) -> str:
    """As `sysctl` takes it: a link's name may have dots."""
    return f"net.ipv4.conf.{name.replace('.', '/')}.{setting}"


def _filtering(name: str) -> str:
    """Of a link's own setting and that of all, the larger counts: 1 is strict, 2 is loose."""
    return max(_read(_of_link("all", "rp_filter")), _read(_of_link(name, "rp_filter")), "0")


def _dropped(ground: Ground) -> Iterator[Finding]:
    """What containers send, by the link that they have; and what is for them, by the links that lead out."""
    host = ground.host
    inside = list(_attached(ground))
    if not inside:
        return
    outside = dict(_ways_out(host))
    for name, ip in inside:
        target = (
            FAR_AWAY[socket.AF_INET] if outside else next((other for _, other in inside if other != ip), None)
        )
        if target is not None:
            yield from _asked(host, name, _index(host, name), source=ip, target=target)
    for index, name in outside.items():
        yield from _asked(host, name, index, source=FAR_AWAY[socket.AF_INET], target=inside[0][1])


def _asked(
    host: Namespace, name: str, index: int | None, *, source: bytes, target: bytes
) -> Iterator[Finding]:
    if index is None:
        return  # it is gone, which the audit tells of
    try:
        way(host, target, source=source, link=index)
    except Refused as refused:
        mode = _filtering(name)
        if refused.errno in FILTERED and mode != "0":
            setting = _of_link(name, "rp_filter")
            how = "strict" if mode == "1" else "on, and the link has no address"
            yield Finding(
                code="sysctl-in-the-way",
                severity="warning",
                subject=setting,
                text=f"the kernel drops packets that come in by {name}, since it would answer by another "
                f"link: reverse-path filtering is {how}",
                next=f"`sysctl -w {setting}=2` lets them pass if any link leads back; write it into "
                "/etc/sysctl.d, too"
                if mode == "1"
                else f"`sysctl -w {setting}=0 {_of_link('all', 'rp_filter')}=0`, or give {name} an address",
            )
        elif refused.errno == errno.EHOSTUNREACH:
            yield forwarding_off(_of_link(name, "forwarding"), link=name)


def _attached(ground: Ground) -> Iterator[tuple[str, bytes]]:
    """The host's end of each attachment, and its IPv4 address: IPv6 has no such filter."""
    for row in ground.attachments:
        plan = ground.plans.get(row.id)
        for item in () if plan is None or row.state != "committed" else plan.objects:
            if isinstance(item, Route) and item.on == "host":
                ip = packed_network(item.destination)[0]
                if len(ip) == 4:
                    yield row.host_link, ip
                    break


def _ways_out(host: Namespace) -> Iterator[tuple[int, str]]:
    """Links that a default route leads to, of whatever table."""
    try:
        listed = host.route.dump(route.GET, route.of_table(socket.AF_INET, 0))
    except KernelError:
        return
    for found in map(route.decode, filter(route.is_default, listed)):
        for hop in found.hops:
            answer = host.route.ask(link.GET, link.get(hop.index)) if hop.index else None
            if answer is not None and hop.index and (one := link.decode(answer)).up:
                yield hop.index, one.name


def _index(host: Namespace, name: str) -> int | None:
    try:
        return host.route.index(name)
    except Refused:
        return None


def _conntrack() -> Iterator[Finding]:
    try:
        with open(f"{_CONNTRACK}count") as count, open(f"{_CONNTRACK}max") as limit:
            used, most = int(count.read()), int(limit.read())
    except (OSError, ValueError):
        return
    if most and used >= most * _NEARLY:
        yield Finding(
            code="conntrack-full",
            severity="error" if used >= most else "warning",
            subject="net.netfilter.nf_conntrack_max",
            text=f"the kernel remembers {used} connections of at most {most}; more are dropped",
            next=f"`sysctl -w net.netfilter.nf_conntrack_max={most * 2}`, and find who opens so many",
        )
