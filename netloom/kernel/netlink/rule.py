"""Policy rules: which table routes which packets."""

from __future__ import annotations

from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .message import Attributes, raw, text, u8, u32

NEW, DELETE, GET = 32, 33, 34

_INFO = Struct("=BBBBBBBBI")
_DST, _SRC, _IIF, _PRIORITY, _MARK, _SUPPRESS, _TABLE, _MASK, _OIF, _L3MDEV, _PROTOCOL = (
    1, 2, 3, 6, 10, 14, 15, 16, 17, 19, 21,
)  # fmt: skip
LOOKUP, BLACKHOLE, UNREACHABLE, PROHIBIT = 1, 6, 7, 8
INVERT = 2


class RuleRecord(Record, frozen=True):
    family: int
    priority: int
    action: int
    table: int
    invert: bool
    source: tuple[bytes, int] | None
    destination: tuple[bytes, int] | None
    iif: str | None
    oif: str | None
    mark: int | None
    mask: int | None
    l3mdev: bool
    suppress: int | None
    protocol: int | None
    more: bool = False


# Attributes of every rule, or without a meaning for the selected packets: padding and a flow's number.
_SILENT = frozenset(
    {_DST, _SRC, _IIF, _PRIORITY, _MARK, _SUPPRESS, _TABLE, _MASK, _OIF, _L3MDEV, _PROTOCOL, 11, 18}
)
_NO_GROUP = 13, 0xFFFFFFFF


def _says_more(found: Attributes, tos: int) -> bool:
    """Says whether a rule has conditions without a field in our records, such as ports or users."""
    for kind in found.kinds() - _SILENT:
        if kind != _NO_GROUP[0] or found.u32(kind) != _NO_GROUP[1]:
            return True
    return bool(tos)


def decode(payload: bytes) -> RuleRecord:
    if len(payload) < _INFO.size:
        raise Malformed(f"a rule of {len(payload)} bytes")
    family, to_bits, from_bits, tos, table, _, _, action, flags = _INFO.unpack_from(payload)
    found = Attributes(payload[_INFO.size :])
    to, source = found.raw(_DST), found.raw(_SRC)
    wide = found.u32(_TABLE)
    suppress = found.s32(_SUPPRESS)
    return RuleRecord(
        family=family,
        priority=found.u32(_PRIORITY) or 0,
        action=action,
        table=table if wide is None else wide,
        invert=bool(flags & INVERT),
        source=None if source is None else (source, from_bits),
        destination=None if to is None else (to, to_bits),
        iif=found.text(_IIF),
        oif=found.text(_OIF),
        mark=found.u32(_MARK),
        mask=found.u32(_MASK),
        l3mdev=bool(found.u8(_L3MDEV)),
        suppress=None if suppress == -1 else suppress,
        protocol=found.u8(_PROTOCOL),
        more=_says_more(found, tos),
    )


def build(rule: RuleRecord) -> bytes:
    to, source = rule.destination, rule.source
    flags = INVERT if rule.invert else 0
    table = rule.table if rule.table < 256 else 0
    parts = [
        _INFO.pack(
            rule.family, to[1] if to else 0, source[1] if source else 0, 0, table, 0, 0, rule.action, flags
        ),
        u32(_PRIORITY, rule.priority),
    ]
    if rule.table:
        parts.append(u32(_TABLE, rule.table))
    if source:
        parts.append(raw(_SRC, source[0]))
    if to:
        parts.append(raw(_DST, to[0]))
    if rule.iif is not None:
        parts.append(text(_IIF, rule.iif))
    if rule.oif is not None:
        parts.append(text(_OIF, rule.oif))
    if rule.mark is not None:
        parts.append(u32(_MARK, rule.mark))
    if rule.mask is not None:
        parts.append(u32(_MASK, rule.mask))
    if rule.l3mdev:
        parts.append(u8(_L3MDEV, 1))
    if rule.suppress is not None:
        parts.append(u32(_SUPPRESS, rule.suppress))
    if rule.protocol is not None:
        parts.append(u8(_PROTOCOL, rule.protocol))
    return b"".join(parts)


def may_have_priority(payload: bytes, priority: int) -> bool:
    """Says whether a rule needs decoding when rules of a priority are searched."""
    return u32(_PRIORITY, priority) in payload


def everything(family: int) -> bytes:
    return _INFO.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
