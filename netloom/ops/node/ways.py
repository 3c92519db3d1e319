"""Whether packets of a container take the way of its attachment, as the kernel decides it now.

Nothing is sent. An `ip rule`, a blackhole route or a narrower route of another program leads packets away
without touching anything that netloom made, so that no comparison of objects shows it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from ...kernel import Namespace, Plan, Route
from ...kernel.errors import Refused
from ...kernel.netlink import route
from ...kernel.netlink.attributes import raw, u32
from ...kernel.values import packed_network, shown_ip

# Root servers, whose addresses have not moved for decades and are no host's own.
FAR_AWAY = {
    socket.AF_INET: socket.inet_pton(socket.AF_INET, "198.41.0.4"),
    socket.AF_INET6: socket.inet_pton(socket.AF_INET6, "2001:503:ba3e::2:30"),
}

# Of a source that reverse-path filtering does not believe; and the same from Linux 6.14 on.
FILTERED = frozenset({errno.EXDEV, errno.EINVAL})

_INFO = Struct("=BBBBBBBBI")
_DST, _SRC, _IIF = 1, 2, 3


def way(
    host: Namespace, target: bytes, *, source: bytes = b"", link: int | None = None
) -> route.Route | None:
    """The route that a packet would take: of the host's own, or of one that came in by a link.

    Raises `Refused`: EHOSTUNREACH if the link does not forward, others as the rule or the route says.
    """
    family = socket.AF_INET if len(target) == 4 else socket.AF_INET6
    question = _INFO.pack(family, len(target) * 8, len(source) * 8, 0, 0, 0, 0, 0, 0) + raw(_DST, target)
    if source:
        question += raw(_SRC, source)
    if link is not None:
        question += u32(_IIF, link)
    answer = host.route.ask(route.GET, question)
    return None if answer is None else route.decode(answer)


def addresses_of(plan: Plan) -> list[bytes]:
    """Those that the plan routes to the attachment."""
    routes = [it for it in plan.objects if isinstance(it, Route) and it.on == "host"]
    return [packed_network(it.destination)[0] for it in routes]


class Diverted(NamedTuple):
    """Packets to or from an address, and what happens to them instead, as a sentence."""

    ip: str
    what: str


def diverted(
    host: Namespace, host_link: str, ips: Sequence[bytes], *, by_settings: bool = True
) -> Iterator[Diverted]:
    """Nothing, if the link is gone. `by_settings`: also what the kernel's settings refuse."""
    try:
        index = host.route.index(host_link)
    except Refused:
        return
    for ip in ips:
        wrong = _not_led_to(host, ip, index)
        if wrong:
            yield Diverted(shown_ip(ip), f"packets to {shown_ip(ip)} do not reach {host_link}: {wrong}")
        elif (refusal := _refused(host, ip, index, by_settings=by_settings)) is not None:
            what = f"the host refuses packets from {shown_ip(ip)} to the outside: {refusal}"
            yield Diverted(shown_ip(ip), what)


def _not_led_to(host: Namespace, ip: bytes, index: int) -> str:
    try:
        found = way(host, ip)
    except Refused as refused:
        return f"the host has no way to it ({os.strerror(refused.errno)})"
    hops = () if found is None else found.hops
    if found is None or found.kind != route.UNICAST or not hops:
        return "a route of the host discards them"
    return "" if hops[0].index == index else f"the host sends them by {_name(host, hops[0].index)}"


def _refused(host: Namespace, ip: bytes, index: int, *, by_settings: bool) -> str | None:
    """Asked only of a host that has a way out itself."""
    family = socket.AF_INET if len(ip) == 4 else socket.AF_INET6
    far = FAR_AWAY[family]
    try:
        if not _leads(way(host, far)):
            return None
    except Refused:
        return None
    try:
        return None if _leads(way(host, far, source=ip, link=index)) else "a route discards them"
    except Refused as refused:
        is_setting = refused.errno == errno.EHOSTUNREACH or refused.errno in FILTERED
        return None if is_setting and not by_settings else os.strerror(refused.errno)


def _leads(found: route.Route | None) -> bool:
    return found is not None and found.kind == route.UNICAST and bool(found.hops)


def _name(host: Namespace, index: int | None) -> str:
    from ...kernel.netlink import link

    try:
        answer = host.route.ask(link.GET, link.get(index or 0))
    except Refused:
        answer = None
    return f"link {index}" if answer is None else str(link.decode(answer).name)
