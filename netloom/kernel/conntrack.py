"""Deletes tracked connections.

The kernel decides about address translation and rules only for the first packet of a connection. When an
address is released, or a port is mapped elsewhere, the old entries would send packets of live flows, UDP
above all, to an address without a container, or to the next owner of the address.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable, Collection, Iterable, Iterator

from .errors import ABSENT, InvalidObject, KernelError, Malformed, Refused, Unsupported
from .namespace import Namespace
from .netlink import conntrack
from .netlink.connection import NetlinkConnection

# The answer of a kernel that has netfilter but no ctnetlink: it does not know the request's subsystem.
_UNKNOWN = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
# The answer to opening a socket of a protocol that the kernel does not have.
_NO_PROTOCOL = frozenset({errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT})

# A filtered dump walks the kernel's whole table as well: 9 ms for the usual 262,144 buckets, 20 ms with
# 100,000 entries in them. Receiving all entries takes 3 us per entry on top of one such walk. A walk keeps a
# processor from handling packets while it lasts, hence rather too few walks than too many.
_ENTRIES_WORTH_A_WALK, _MOST_WALKS = 4096, 8


def forget(
    namespace: Namespace, address: str, *, protocol: int | None = None, port: int | None = None
) -> int:
    """Deletes the tracked connections that involve an address; returns how many.

    An address is involved as source or destination, before or after translation. `protocol` is its number, as
    in `socket.IPPROTO_UDP`; `port` is the destination port before translation.
    """
    family, packed = _parsed(address)
    connection = _connection(namespace)
    return sum(
        _delete(connection, entry, f"of {address}")
        for entry in _listed(connection, family, packed)
        if packed in _parties(entry)
        and protocol in (None, entry.original.protocol)
        and port in (None, entry.original.destination_port)
    )


def forget_to_ports(
    namespace: Namespace,
    family: int,
    ports: Collection[tuple[int, int]],
    stale: Callable[[conntrack.ConntrackEntry], bool],
) -> int:
    """Deletes the tracked connections to any of the ports for which `stale` is true; returns how many.

    A port is a protocol's number and the destination port before translation. `family` is
    `socket.AF_INET` or `socket.AF_INET6`. Where a connection is sent by translation, its entry's
    `reply.source` and `reply.source_port` are not its `original.destination` and `destination_port`.
    """
    return _forget_by_ports(namespace, family, ports, stale, conntrack.made_to, _made_to)


def forget_from_ports(
    namespace: Namespace,
    family: int,
    ports: Collection[tuple[int, int]],
    stale: Callable[[conntrack.ConntrackEntry], bool],
) -> int:
    """Deletes connections from any of the ports likewise; a late answer looks like such a connection."""
    return _forget_by_ports(namespace, family, ports, stale, conntrack.made_from, _made_from)


def _forget_by_ports(
    namespace: Namespace,
    family: int,
    ports: Collection[tuple[int, int]],
    stale: Callable[[conntrack.ConntrackEntry], bool],
    request: Callable[[int, int, int], bytes],
    among: Callable[[list[bytes], frozenset[tuple[int, int]]], Iterator[conntrack.ConntrackEntry]],
) -> int:
    """`request` builds the query for the entries of a port, and `among` finds them in the answer."""
    wanted = _checked(family, ports)
    if not wanted:
        return 0
    connection = _connection(namespace)
    told = _candidates(connection, family, [request(family, *port) for port in wanted])
    return sum(_delete(connection, entry, "of a port") for entry in among(told, wanted) if stale(entry))


def forget_translated_to(namespace: Namespace, family: int, addresses: Collection[bytes]) -> int:
    """Deletes the tracked connections that translation sends to one of the addresses; returns how many."""
    connection = _connection(namespace)
    if not addresses or _tracked(connection) == 0:
        return 0
    return sum(
        _delete(connection, entry, f"to {socket.inet_ntop(family, entry.reply.source)}")
        for entry in map(conntrack.decode, _dumped(connection, family))
        if entry.reply.source in addresses and entry.reply.source != entry.original.destination
    )


def _checked(family: int, ports: Collection[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    if family not in (socket.AF_INET, socket.AF_INET6):
        raise InvalidObject(f"connections of address family {family} have no ports: use AF_INET or AF_INET6")
    for protocol, port in ports:
        if not (0 <= protocol <= 0xFF and 0 <= port <= 0xFFFF):
            raise InvalidObject(f"there is no port {port} of protocol {protocol}")
    return frozenset(ports)


def _candidates(connection: NetlinkConnection, family: int, filters: Iterable[bytes]) -> list[bytes]:
    """Returns the entries that may pass a filter, in the cheapest way for the number of entries."""
    tracked = _tracked(connection)
    if tracked == 0:
        return []
    requests = dict.fromkeys(filters)
    if len(requests) <= min(1 + tracked // _ENTRIES_WORTH_A_WALK, _MOST_WALKS):
        try:
            return [told for request in requests for told in connection.dump(conntrack.GET, request)]
        except Refused as refused:
            if refused.errno not in _UNKNOWN:
                raise refused.during("list tracked connections to a port") from None
    return _dumped(connection, family)


def _tracked(connection: NetlinkConnection) -> int:
    try:
        told = connection.ask(conntrack.COUNT, conntrack.everything())
    except Refused as refused:
        if refused.errno in _UNKNOWN:
            raise _unsupported() from refused
        raise refused.during("count tracked connections") from None
    if told is None:
        raise Malformed("the kernel did not return the number of tracked connections")
    return conntrack.counted(told)


def _made_to(told: list[bytes], ports: frozenset[tuple[int, int]]) -> Iterator[conntrack.ConntrackEntry]:
    for payload in told:
        found = conntrack.peek_port(payload)
        if found is None or found in ports:
            entry = conntrack.decode(payload)
            if (entry.original.protocol, entry.original.destination_port) in ports:
                yield entry


def _made_from(told: list[bytes], ports: frozenset[tuple[int, int]]) -> Iterator[conntrack.ConntrackEntry]:
    for entry in map(conntrack.decode, told):
        if (entry.original.protocol, entry.original.source_port) in ports:
            yield entry


def _parsed(address: str) -> tuple[int, bytes]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise InvalidObject(f"{address!r} is not an IP address") from None
    return (socket.AF_INET if parsed.version == 4 else socket.AF_INET6), parsed.packed


def _connection(namespace: Namespace) -> NetlinkConnection:
    try:
        return namespace.netfilter
    except KernelError as refused:
        if refused.errno not in _NO_PROTOCOL:
            raise
        raise _unsupported() from refused


def _listed(connection: NetlinkConnection, family: int, packed: bytes) -> list[conntrack.ConntrackEntry]:
    """Returns the candidates: the entries with the address's bytes anywhere in them.

    Decoding dominates the time for a large table, and nearly all of its entries are about other addresses.
    """
    return [conntrack.decode(payload) for payload in _dumped(connection, family) if packed in payload]


def _dumped(connection: NetlinkConnection, family: int) -> list[bytes]:
    try:
        return connection.dump(conntrack.GET, conntrack.everything(family))
    except Refused as refused:
        if refused.errno in _UNKNOWN:
            raise _unsupported() from refused
        raise refused.during("list tracked connections") from None


def _parties(entry: conntrack.ConntrackEntry) -> tuple[bytes, bytes, bytes, bytes]:
    original, reply = entry.original, entry.reply
    return original.source, original.destination, reply.source, reply.destination


def _delete(connection: NetlinkConnection, entry: conntrack.ConntrackEntry, which: str) -> bool:
    try:
        connection.change(conntrack.DELETE, 0, conntrack.exactly(entry))
    except Refused as refused:
        if refused.errno in ABSENT:
            return False
        raise refused.during(f"delete the tracked connection {which}") from None
    return True


def _unsupported() -> Unsupported:
    return Unsupported(
        "this kernel cannot list tracked connections (nf_conntrack_netlink)", feature="conntrack"
    )
