"""Links: network devices of every kind."""

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
    """What the kernel says of a link. `parent` and `master` are indexes.

    `hardware` is its type (ARPHRD_*); `resolves` is whether neighbours have to be resolved on it.
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
    """What tells a link from others, for a list of thousands."""

    index: int
    name: str
    group: int
    up: bool


def decode_entry(payload: bytes) -> LinkEntry:
    """Reads no further than it has to: a quarter of what `decode` costs."""
    if len(payload) < SIZE:
        raise Malformed(f"a link of {len(payload)} bytes")
    _, _, index, flags, _ = _INFO.unpack_from(payload)
    found = Attributes.some(payload, SIZE, (_NAME, _GROUP))
    return LinkEntry(index, found.text(_NAME) or "", found.u32(_GROUP) or 0, bool(flags & UP))


def by_index(index: int) -> bytes:
    return _INFO.pack(0, 0, index, 0, 0)


def by_name(name: str) -> bytes:
    return _NOBODY + text(_NAME, name)


_NOBODY = by_index(0)


def get(index: int) -> bytes:
    return by_index(index) + u32(_EXT_MASK, _SKIP_STATISTICS)


def get_by_name(name: str) -> bytes:
    return by_name(name) + u32(_EXT_MASK, _SKIP_STATISTICS)


def everything() -> bytes:
    return _NOBODY + u32(_EXT_MASK, _SKIP_STATISTICS)


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
    """What links of all kinds have. A master of 0 means no master."""
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
    """A new link of a kind. `data` are the attributes that only this kind has."""
    parts = [text(_KIND, kind)]
    if data:
        parts.append(nested(_DATA, data))
    return _NOBODY + common + nested(_LINKINFO, *parts)


def veth_peer(common: bytes, netns: int | None) -> bytes:
    """The data of a veth: its other end, born in the namespace that a descriptor stands for.

    Moving an end there afterwards would cost an RCU grace period of some 15 ms.
    """
    where = b"" if netns is None else u32(_NET_NS_FD, netns)
    return nested(_VETH_PEER, _NOBODY, common, where)


def change(index: int, common: bytes = b"", *, up: bool | None = None) -> bytes:
    if up is None:
        return by_index(index) + common
    return _INFO.pack(0, 0, index, UP if up else 0, UP) + common


def without_link_local() -> bytes:
    """That the kernel makes no link-local address when the link comes up. It must be told before."""
    return nested(_AF_SPEC, nested(socket.AF_INET6, u8(_ADDR_GEN_MODE, _ADDR_GEN_NONE)))


def change_port(index: int, kind: str, data: bytes) -> bytes:
    """What a link has as a port of its master."""
    return by_index(index) + nested(_LINKINFO, text(_PORT_KIND, kind), nested(_PORT_DATA, data))


def delete_group(group: int) -> bytes:
    """Every link of a group, at the price of one RCU barrier for all of them."""
    return _NOBODY + u32(_GROUP, group)


def departed(kind: int, payload: bytes) -> int | None:
    """The index of the link that a notification says is gone.

    A bridge says the same of a port that leaves it, but as a message of its own family.
    """
    if kind != DELETE or len(payload) < SIZE:
        return None
    family, _, index, _, _ = _INFO.unpack_from(payload)
    return index if family == 0 else None


def was_moved(payload: bytes) -> bool:
    """Whether a link that is gone lives on, in another namespace."""
    return _NEW_NETNSID in Attributes(payload[SIZE:])
