"""Looks at the host that attachments are made on: its way out, its addresses, the machines beside it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from ...kernel import Namespace
from ...kernel.errors import InvalidObject, Refused
from ...kernel.neighbourhood import Machine, machines_on
from ...kernel.netlink import address, link
from ...kernel.uplink import Uplink, uplink
from ...kernel.values import packed_ip
from ...networks.host import DEFAULT_MTU, Host
from ...networks.names import PREFIX

_IPV6 = "/proc/sys/net/ipv6"
RESOLVERS = "/etc/resolv.conf"


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
    machines = machines_on(namespace, links)
    # The kernel has a host route to the far end of a wire, too, which says less.
    machines |= {ip: it for ip, it in far_ends.items() if ip not in machines or machines[ip].role == "routed"}
    for ip in resolvers():
        name = next((links[it.index] for it in on_links if _is_on_subnet(ip, it)), None)
        if name is not None and (ip not in machines or machines[ip].role in ("neighbour", "routed")):
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
