"""Identity in an address: who a workload is, readable in the host part of its address.

The host part is counted in nibbles, one digit of an IPv6 address each. The fields of an identity share
them in equal parts (the first ones get what does not divide), each filled with a hash of its field; the
last nibble is a slot for those that agree in all fields. A /64 with three fields is 5 + 5 + 5 + 1.
"""

from __future__ import annotations

from functools import lru_cache

SLOTS = 16

_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF
_HASH_NIBBLES = 16


def embedded(identity: tuple[str, ...], host_bits: int) -> int | None:
    """The host part of an identity with an empty slot; None if there is no identity, or no room for one.

    >>> hex(embedded(("shop", "web", "nginx"), 64))
    '0x9767bd2a92d30c80'
    """
    room = host_bits // 4 - 1
    if room < 1 or not identity:
        return None
    if room < len(identity):  # not a nibble for each: together they still tell one from another
        identity = ("\0".join(identity),)
    each, left = divmod(room, len(identity))
    host = 0
    for place, field in enumerate(identity):
        nibbles = each + (place < left)
        host = host << (4 * nibbles) | _folded(fnv1a(field), min(nibbles, _HASH_NIBBLES))
    return host << 4


@lru_cache(maxsize=1024)
def fnv1a(text: str) -> int:
    """FNV-1a, 64 bits.

    >>> hex(fnv1a("foobar"))
    '0x85944171f73967e8'
    """
    value = _BASIS
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * _PRIME & _MASK
    return value


def _folded(value: int, nibbles: int) -> int:
    """All bits of a hash in fewer. Its top ones alone are the same for `web-1` and `web-2`."""
    bits = 4 * nibbles
    folded = 0
    while value:
        folded ^= value & ((1 << bits) - 1)
        value >>= bits
    return folded
