"""Links: network devices of every type."""

from __future__ import annotations

import socket
from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import NOTHING, Attributes, nested, raw, text, u8, u32

NEW, DELETE, GET, SET = 16, 17, 18, 19

_INFO = Struct("=BxHiII")
SIZE = _INFO.size
UP, LOOPBACK, POINT_TO_POINT, NO_ARP = 0x1, 0x8, 0x10, 0x80

_ADDRESS, _NAME, _MTU, _LINK, _MASTER, _TXQLEN, _LINKINFO = 1, 3, 4, 5, 10, 13, 18
_AF_SPEC, _ADDR_GEN_MODE, _ADDR_GEN_NONE = 26, 8, 1
_GROUP, _NET_NS_FD, _EXT_MASK = 27, 28, 29
_TX_QUEUES, _RX_QUEUES, _LINK_NETNSID, _NEW_NETNSID = 31, 32, 37, 45
_KIND, _DATA, _PORT_KIND, _PORT_DATA = 1, 2, 4, 5
_VETH_PEER = 1
_SKIP_STATISTICS = 1 << 3


class Link(Record, frozen=True):
    """A link as the kernel describes it. `parent` and `master` are indexes.

    `hardware` is its type (ARPHRD_*); `resolves` says whether it needs neighbour resolution.
    """

    index: int
    name: str
    kind: str
    up: bool
    mac: str | None
    mtu: int | None
    txqlen: int | None
    parent: int | None
    parent_netnsid: int | None
    master: int | None
    group: int | None
    data: Attributes | None
    port_kind: str | None
    port: Attributes | None
    hardware: int
    resolves: bool


def decode(payload: bytes) -> Link:
    if len(payload) < SIZE:
        raise Malformed(f"a link of {len(payload)} bytes")
    _, hardware, index, flags, _ = _INFO.unpack_from(payload)
    found = Attributes(payload[SIZE:])
    info = found.nested(_LINKINFO) or NOTHING
    return Link(
        index=index,
        name=found.text(_NAME) or "",
        kind=info.text(_KIND) or "",
        up=bool(flags & UP),
        mac=found.mac(_ADDRESS),
        mtu=found.u32(_MTU),
        txqlen=found.u32(_TXQLEN),
        parent=found.u32(_LINK),
        parent_netnsid=found.s32(_LINK_NETNSID),
        master=found.u32(_MASTER),
        group=found.u32(_GROUP),
        data=info.nested(_DATA),
        port_kind=info.text(_PORT_KIND),
        port=info.nested(_PORT_DATA),
        hardware=hardware,
        resolves=not flags & (NO_ARP | LOOPBACK),
    )


class LinkEntry(Record, frozen=True):
    """The fields that identify a link, for lists of thousands."""

    index: int
    name: str
    group: int
    up: bool


def decode_entry(payload: bytes) -> LinkEntry:
    """Decodes no more than needed, in a quarter of the time of `decode`."""
    if len(payload) < SIZE:
        raise Malformed(f"a link of {len(payload)} bytes")
    _, _, index, flags, _ = _INFO.unpack_from(payload)
    found = Attributes.some(payload, SIZE, (_NAME, _GROUP))
    return LinkEntry(index, found.text(_NAME) or "", found.u32(_GROUP) or 0, bool(flags & UP))


def by_index(index: int) -> bytes:
    return _INFO.pack(0, 0, index, 0, 0)


def by_name(name: str) -> bytes:
    return _NO_LINK + text(_NAME, name)


_NO_LINK = by_index(0)


def get(index: int) -> bytes:
    return by_index(index) + u32(_EXT_MASK, _SKIP_STATISTICS)


def get_by_name(name: str) -> bytes:
    return by_name(name) + u32(_EXT_MASK, _SKIP_STATISTICS)


def everything() -> bytes:
    return _NO_LINK + u32(_EXT_MASK, _SKIP_STATISTICS)


def properties(
    *,
    mac: str | None = None,
    mtu: int | None = None,
    txqlen: int | None = None,
    parent: int | None = None,
    master: int | None = None,
    group: int | None = None,
    queues: int | None = None,
    name: str | None = None,
) -> bytes:
    """Returns the attributes that all links have. A master of 0 means no master."""
    parts = []
    if name is not None:
        parts.append(text(_NAME, name))
    if mac is not None:
        parts.append(raw(_ADDRESS, bytes.fromhex(mac.replace(":", ""))))
    if mtu is not None:
        parts.append(u32(_MTU, mtu))
    if txqlen is not None:
        parts.append(u32(_TXQLEN, txqlen))
    if parent is not None:
        parts.append(u32(_LINK, parent))
    if master is not None:
        parts.append(u32(_MASTER, master))
    if group is not None:
        parts.append(u32(_GROUP, group))
    if queues is not None:
        parts += [u32(_TX_QUEUES, queues), u32(_RX_QUEUES, queues)]
    return b"".join(parts)


def create(kind: str, common: bytes, data: bytes = b"") -> bytes:
    """Builds the request for a new link. `data` are the attributes of its type."""
    parts = [text(_KIND, kind)]
    if data:
        parts.append(nested(_DATA, data))
    return _NO_LINK + common + nested(_LINKINFO, *parts)


def veth_peer(common: bytes, netns: int | None) -> bytes:
    """Returns the data of a veth whose other end is created in the namespace of a descriptor.

    Moving an end there afterwards would cost an RCU grace period of some 15 ms.
    """
    where = b"" if netns is None else u32(_NET_NS_FD, netns)
    return nested(_VETH_PEER, _NO_LINK, common, where)


def change(index: int, common: bytes = b"", *, up: bool | None = None) -> bytes:
    if up is None:
        return by_index(index) + common
    return _INFO.pack(0, 0, index, UP if up else 0, UP) + common


def without_link_local() -> bytes:
    """Keeps the kernel from making a link-local address when the link comes up. Must be sent before that."""
    return nested(_AF_SPEC, nested(socket.AF_INET6, u8(_ADDR_GEN_MODE, _ADDR_GEN_NONE)))


def change_port(index: int, kind: str, data: bytes) -> bytes:
    """Builds a change of a link's settings as a port of its master."""
    return by_index(index) + nested(_LINKINFO, text(_PORT_KIND, kind), nested(_PORT_DATA, data))


def delete_group(group: int) -> bytes:
    """Builds a request that deletes every link of a group, at the cost of one RCU barrier for all."""
    return _NO_LINK + u32(_GROUP, group)


def departed(kind: int, payload: bytes) -> int | None:
    """Returns the index of the link that a notification reports as deleted.

    A bridge reports a port that leaves it in the same way, but in a message of its own family.
    """
    if kind != DELETE or len(payload) < SIZE:
        return None
    family, _, index, _, _ = _INFO.unpack_from(payload)
    return index if family == 0 else None


def was_moved(payload: bytes) -> bool:
    """Says whether a deleted link was moved to another namespace."""
    return _NEW_NETNSID in Attributes(payload[SIZE:])
