"""The host that attachments are made on: its default route, addresses, neighbours, and routing decisions."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from ...kernel import Namespace
from ...kernel.errors import InvalidObject, Refused
from ...kernel.netlink import address, link, route
from ...kernel.netlink.message import raw, u32
from ...kernel.uplink import Machine, Uplink, machines_on, uplink
from ...kernel.values import packed_ip, shown_ip
from ...networks.host import DEFAULT_MTU, Host
from ...networks.names import PREFIX

_IPV6 = "/proc/sys/net/ipv6"
RESOLVERS = "/etc/resolv.conf"


def read_host(namespace: Namespace) -> Host:
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
    """Returns links to other machines: those with an address, and the uplink; never containers' links."""
    found: dict[int, str] = {}
    for index in indexes:
        with suppress(Refused):  # it was deleted just now
            answer = namespace.route.ask(link.GET, link.get(index))
            if answer is not None:
                found[index] = link.decode(answer).name
    if way_out is not None and way_out.link not in found.values():
        with suppress(Refused):
            found[namespace.route.index(way_out.link)] = way_out.link
    return {index: name for index, name in found.items() if name != "lo" and not name.startswith(PREFIX)}


def _neighbours(
    namespace: Namespace, addresses: Sequence[address.AddressRecord], links: Mapping[int, str]
) -> dict[bytes, Machine]:
    """Returns each machine with its most telling role: a gateway may be a resolver and a neighbour, too."""
    on_links = [it for it in addresses if it.index in links]
    far_ends = {packed_ip(it.peer): Machine("neighbour", links[it.index]) for it in on_links if it.peer}
    machines = machines_on(namespace, links)
    # A host route to the far end of a point-to-point link says less than the link's address.
    machines |= {ip: it for ip, it in far_ends.items() if ip not in machines or machines[ip].role == "remote"}
    for ip in resolvers():
        name = next((links[it.index] for it in on_links if _is_on_subnet(ip, it)), None)
        if name is not None and (ip not in machines or machines[ip].role in ("neighbour", "remote")):
            machines[ip] = Machine("resolver", name)
    return machines


def _is_on_subnet(ip: bytes, of: address.AddressRecord) -> bool:
    near = packed_ip(of.peer or of.address)
    bits = len(near) * 8 - of.prefix
    return len(ip) == len(near) and int.from_bytes(ip, "big") >> bits == int.from_bytes(near, "big") >> bits


def resolvers(path: str = RESOLVERS) -> list[bytes]:
    """Returns the host's DNS servers; none if the file cannot be read."""
    found = []
    with suppress(OSError), open(path, errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) > 1 and words[0] == "nameserver":
                with suppress(InvalidObject):
                    found.append(packed_ip(words[1].partition("%")[0]))
    return found


def _ipv6_switch(namespace: Namespace) -> str:
    """Returns the sysctl that switches IPv6 off for new links. They use `default`, which `all` also sets."""
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


# Root servers, whose addresses have not changed for decades.
FAR_AWAY = {
    socket.AF_INET: socket.inet_pton(socket.AF_INET, "198.41.0.4"),
    socket.AF_INET6: socket.inet_pton(socket.AF_INET6, "2001:503:ba3e::2:30"),
}

# Errors for a source that reverse-path filtering rejects: before Linux 6.14, and since.
FILTERED = frozenset({errno.EXDEV, errno.EINVAL})

_INFO = Struct("=BBBBBBBBI")
_DST, _SRC, _IIF = 1, 2, 3


def way(
    host: Namespace, target: bytes, *, source: bytes = b"", link: int | None = None
) -> route.RouteRecord | None:
    """Returns the route of a packet of the host, or of one that arrives on `link`.

    Raises `Refused`: EHOSTUNREACH if the link does not forward, otherwise the error of the rule or route.
    """
    family = socket.AF_INET if len(target) == 4 else socket.AF_INET6
    question = _INFO.pack(family, len(target) * 8, len(source) * 8, 0, 0, 0, 0, 0, 0) + raw(_DST, target)
    if source:
        question += raw(_SRC, source)
    if link is not None:
        question += u32(_IIF, link)
    answer = host.route.ask(route.GET, question)
    return None if answer is None else route.decode(answer)


class Diverted(NamedTuple):
    """An address whose packets take a wrong route, and `what` happens to them, as a sentence."""

    ip: str
    what: str


def diverted(
    host: Namespace, host_link: str, ips: Sequence[bytes], *, by_settings: bool = True
) -> Iterator[Diverted]:
    """Yields nothing if the link is missing. `by_settings`: includes what kernel settings refuse."""
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
        return f"the host has no route to it ({os.strerror(refused.errno)})"
    hops = () if found is None else found.hops
    if found is None or found.kind != route.UNICAST or not hops:
        return "a route of the host discards them"
    return "" if hops[0].index == index else f"the host sends them to {_name(host, hops[0].index)}"


def _refused(host: Namespace, ip: bytes, index: int, *, by_settings: bool) -> str | None:
    """Returns None also if the host itself has no route to the outside."""
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


def _leads(found: route.RouteRecord | None) -> bool:
    return found is not None and found.kind == route.UNICAST and bool(found.hops)


def _name(host: Namespace, index: int | None) -> str:
    from ...kernel.netlink import link

    try:
        answer = host.route.ask(link.GET, link.get(index or 0))
    except Refused:
        answer = None
    return f"link {index}" if answer is None else str(link.decode(answer).name)
