"""Forgetting tracked connections.

The kernel decides about address translation and rules for the first packet of a connection only.
When an address goes, or a port is mapped elsewhere, the entries that still name it would send the
packets of living flows, UDP above all, to where nobody is, or to the next owner of the address.
"""

from __future__ import annotations

import errno
import ipaddress
import socket

from .errors import ABSENT, InvalidObject, KernelError, Refused, Unsupported
from .namespace import Namespace
from .netlink import conntrack
from .netlink.connection import Connection

# What a kernel says that has netfilter, but no ctnetlink: the request's subsystem is unknown to it.
_UNKNOWN = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
# What it says to a socket of a protocol that it does not have.
_NO_PROTOCOL = frozenset({errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT})


def forget(
    namespace: Namespace, address: str, *, protocol: int | None = None, port: int | None = None
) -> int:
    """Deletes the tracked connections in which an address takes part; says how many.

    It takes part as source or destination, before or after translation. `protocol` is its number,
    as in `socket.IPPROTO_UDP`; `port` is the one that the connection was made to, before translation.
    """
    family, packed = _parsed(address)
    connection = _connection(namespace)
    return sum(
        _delete(connection, entry, address)
        for entry in _listed(connection, family, packed)
        if packed in _parties(entry)
        and protocol in (None, entry.original.protocol)
        and port in (None, entry.original.destination_port)
    )


def _parsed(address: str) -> tuple[int, bytes]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise InvalidObject(f"{address!r} is no IP address") from None
    return (socket.AF_INET if parsed.version == 4 else socket.AF_INET6), parsed.packed


def _connection(namespace: Namespace) -> Connection:
    try:
        return namespace.netfilter
    except KernelError as refused:
        if refused.errno not in _NO_PROTOCOL:
            raise
        raise _unsupported() from refused


def _listed(connection: Connection, family: int, packed: bytes) -> list[conntrack.Entry]:
    """The entries that may be meant: those with the address's bytes anywhere in them.

    Decoding is what a large table costs, and nearly all of it is about others.
    """
    try:
        found = connection.dump(conntrack.GET, conntrack.everything(family))
    except Refused as refused:
        if refused.errno in _UNKNOWN:
            raise _unsupported() from refused
        raise refused.during("list tracked connections") from None
    return [conntrack.decode(payload) for payload in found if packed in payload]


def _parties(entry: conntrack.Entry) -> tuple[bytes, bytes, bytes, bytes]:
    original, reply = entry.original, entry.reply
    return original.source, original.destination, reply.source, reply.destination


def _delete(connection: Connection, entry: conntrack.Entry, address: str) -> bool:
    try:
        connection.change(conntrack.DELETE, 0, conntrack.exactly(entry))
    except Refused as refused:
        if refused.errno in ABSENT:
            return False
        raise refused.during(f"forget a connection of {address}") from None
    return True


def _unsupported() -> Unsupported:
    return Unsupported(
        "this kernel cannot list tracked connections (nf_conntrack_netlink)", feature="conntrack"
    )
