"""Next hops as objects of their own, which routes name by number (Linux 5.3 and later)."""

from __future__ import annotations

from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from .attributes import Attributes

NEW, DELETE, GET = 104, 105, 106

_INFO = Struct("=BBBxI")
_OIF, _GATEWAY = 5, 6


class NextHop(Record, frozen=True):
    """A group has neither: its members are listed as well."""

    index: int | None
    gateway: bytes | None


def decode(payload: bytes) -> NextHop:
    if len(payload) < _INFO.size:
        raise Malformed(f"a next hop of {len(payload)} bytes")
    found = Attributes(payload[_INFO.size :])
    return NextHop(found.u32(_OIF), found.raw(_GATEWAY))


def everything() -> bytes:
    return bytes(_INFO.size)
