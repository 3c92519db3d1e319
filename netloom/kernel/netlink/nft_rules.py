"""Rules of nftables, read back as text: those forms that chains of networks are made of, and no others.

libnftables can list any rule, but loads every element of the table for it, and its spelling depends on its
version. The forms here are few: return by destination, and masquerade.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Malformed
from ..values import shown_ip
from .attributes import Attributes, each

_NAME, _DATA = 1, 2
_VALUE, _VERDICT, _CODE = 1, 2, 1
_COMPARED = 3
_MASK = 4
_BASE, _OFFSET, _LENGTH = 2, 3, 4
_NETWORK_HEADER = 1
_RETURN = (-5 & 0xFFFFFFFF).to_bytes(4, "big")

# By the number of a family: its word, and where a packet has its destination, and in how many bytes.
_FAMILIES = {b"\x02": ("ip", 16, 4), b"\x0a": ("ip6", 24, 16)}
_BY_DESTINATION = ["meta", "cmp", "payload", "cmp", "immediate"]
_BY_MASK = ["meta", "cmp", "payload", "bitwise", "cmp", "immediate"]


def spelled(expressions: bytes) -> str | None:
    """A rule in nft's language; None if it has another form.

    What it gives may be wrong about parts that no rule of ours uses, such as an inverted comparison: the
    caller compares what becomes of the text with what the kernel has.
    """
    parts = [Attributes(payload) for _, payload in each(expressions)]
    names = [part.text(_NAME) for part in parts]
    if names == ["masq"]:
        return "masquerade"
    if names not in (_BY_DESTINATION, _BY_MASK):
        return None
    data = [part.nested(_DATA) or Attributes(b"") for part in parts]
    try:
        return _by_destination(data)
    except Malformed:
        return None


def _by_destination(data: Sequence[Attributes]) -> str | None:
    _, family, payload, *masks, compared, verdict = data
    found = _FAMILIES.get(_value(family, _COMPARED))
    if found is None or _verdict(verdict) != _RETURN:
        return None
    word, offset, size = found
    if (_number(payload, _BASE), _number(payload, _OFFSET)) != (_NETWORK_HEADER, offset):
        return None
    length = _number(payload, _LENGTH)
    address = _value(compared, _COMPARED)
    if len(address) != length or length > size:
        return None
    prefix = 8 * length if not masks else _prefix(_value(masks[0], _MASK), length)
    if prefix is None:
        return None
    return f"{word} daddr {shown_ip(address.ljust(size, bytes(1)))}/{prefix} return"


def _prefix(mask: bytes, length: int) -> int | None:
    bits = f"{int.from_bytes(mask, 'big'):0{8 * length}b}"
    prefix = bits.count("1")
    return prefix if len(mask) == length and bits == "1" * prefix + "0" * (8 * length - prefix) else None


def _value(of: Attributes, kind: int) -> bytes:
    nest = of.nested(kind)
    return b"" if nest is None else nest.raw(_VALUE) or b""


def _verdict(of: Attributes) -> bytes:
    nest = of.nested(_DATA)
    verdict = None if nest is None else nest.nested(_VERDICT)
    return b"" if verdict is None else verdict.raw(_CODE) or b""


def _number(of: Attributes, kind: int) -> int:
    return int.from_bytes(of.raw(kind) or b"", "big")
