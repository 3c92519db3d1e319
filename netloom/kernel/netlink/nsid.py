"""Namespace IDs: the numbers by which a namespace knows others, as in a veth's `parent_netnsid`."""

from __future__ import annotations

from ..errors import Malformed
from .message import Attributes, s32, u32

NEW, DELETE, GET = 88, 89, 90

_HEAD = bytes(4)
_NSID, _FD = 1, 3
ANY = -1


def of(netns: int) -> bytes:
    """Builds a query for the ID of the namespace of a descriptor."""
    return _HEAD + u32(_FD, netns)


def assign(netns: int, number: int = ANY) -> bytes:
    return _HEAD + u32(_FD, netns) + s32(_NSID, number)


def everything() -> bytes:
    return _HEAD


def decode(payload: bytes) -> int:
    """Returns the ID; -1 if the namespace has none here."""
    number = Attributes(payload[len(_HEAD) :]).s32(_NSID)
    if number is None:
        raise Malformed("a namespace ID without a number")
    return number
