"""Filters that redirect every packet of a link to another one."""

from __future__ import annotations

import socket
from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import NOTHING, Attributes, each, nested, raw, text
from .qdisc import INFO

NEW, DELETE, GET = 44, 45, 46

_KIND, _OPTIONS = 1, 2
_ACTION_KIND, _ACTION_OPTIONS = 1, 2
_MATCHALL_ACTION = 2
_U32_SELECTOR, _U32_ACTION = 5, 7
_MIRRED_PARAMETERS = 2

_MIRRED = Struct("=IIiiiiI")  # index, capabilities, action, references, bindings, direction, link
_STOLEN, _EGRESS_REDIRECT = 4, 1
_SELECTOR = Struct("=BBBxHHhhI")  # flags, offset shift, keys, offset mask, offset, ...
_KEY = Struct("=IIii")
_TERMINAL = 1
_ALL_PROTOCOLS = socket.htons(0x0003)

# The parent of a child on the ingress hook, also of clsact.
INGRESS_PARENT = 0xFFFFFFF2
EGRESS_PARENT = 0xFFFFFFF3


class Filter(Record, frozen=True):
    """With `everything`, it matches every packet. `redirect` is the index of the target link."""

    index: int
    parent: int
    priority: int
    handle: int
    kind: str
    everything: bool
    redirect: int | None


def decode(payload: bytes) -> Filter:
    if len(payload) < INFO.size:
        raise Malformed(f"a filter of {len(payload)} bytes")
    _, index, handle, parent, info = INFO.unpack_from(payload)
    found = Attributes(payload[INFO.size :])
    kind = found.text(_KIND) or ""
    options = found.nested(_OPTIONS) or NOTHING
    everything = info & 0xFFFF == _ALL_PROTOCOLS and _matches_all(kind, options)
    return Filter(index, parent, info >> 16, handle, kind, everything, _redirect(kind, options))


def _matches_all(kind: str, options: Attributes) -> bool:
    if kind != "u32":
        return kind == "matchall"
    selector = options.raw(_U32_SELECTOR) or b""
    if len(selector) < _SELECTOR.size:
        return False
    keys = _SELECTOR.unpack_from(selector)[2]
    if len(selector) < _SELECTOR.size + keys * _KEY.size:
        raise Malformed(f"a u32 selector of {len(selector)} bytes with {keys} keys")
    masks = (_KEY.unpack_from(selector, _SELECTOR.size + number * _KEY.size)[0] for number in range(keys))
    return not any(masks)


def _redirect(kind: str, options: Attributes) -> int | None:
    actions = options.raw({"u32": _U32_ACTION, "matchall": _MATCHALL_ACTION}.get(kind, 0))
    for _, action in each(actions or b""):
        found = Attributes(action)
        inner = found.nested(_ACTION_OPTIONS)
        data = inner and inner.raw(_MIRRED_PARAMETERS)
        if found.text(_ACTION_KIND) == "mirred" and data and len(data) >= _MIRRED.size:
            *_, action_number, _, _, direction, link = _MIRRED.unpack_from(data)
            if (action_number, direction) == (_STOLEN, _EGRESS_REDIRECT):
                return int(link)
    return None


def redirect(index: int, target: int, *, kind: str, priority: int) -> bytes:
    """Builds a filter that redirects all incoming packets of a link to another, by `matchall` or `u32`."""
    parameters = _MIRRED.pack(0, 0, _STOLEN, 0, 0, _EGRESS_REDIRECT, target)
    action = nested(
        1, text(_ACTION_KIND, "mirred"), nested(_ACTION_OPTIONS, raw(_MIRRED_PARAMETERS, parameters))
    )
    if kind == "matchall":
        options = nested(_OPTIONS, nested(_MATCHALL_ACTION, action))
    else:
        # One key with an empty mask, which matches every packet.
        selector = _SELECTOR.pack(_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + _KEY.pack(0, 0, 0, 0)
        options = nested(_OPTIONS, raw(_U32_SELECTOR, selector), nested(_U32_ACTION, action))
    return _head(index, priority) + text(_KIND, kind) + options


def exactly(index: int, found: Filter) -> bytes:
    """Identifies one filter among others that may have its priority."""
    return _head(index, found.priority, found.handle) + text(_KIND, found.kind)


def of_link(index: int, parent: int = INGRESS_PARENT) -> bytes:
    return INFO.pack(0, index, 0, parent, 0)


def _head(index: int, priority: int, handle: int = 0) -> bytes:
    return INFO.pack(0, index, handle, INGRESS_PARENT, priority << 16 | _ALL_PROTOCOLS)
