"""Generic netlink: one protocol for many families, each with a number that the kernel gives out.

A family's number differs from boot to boot, so it is looked up by name. Looking loads the
module of the family, where the kernel has one.
"""

from __future__ import annotations

import errno
from struct import Struct

from ..errors import Malformed, Refused
from .attributes import Attributes, text
from .connection import Connection

_HEADER = Struct("=BBH")  # command, version, reserved
SIZE = _HEADER.size

_CONTROL, _CONTROL_VERSION = 16, 2
_GET_FAMILY = 3
_FAMILY_ID, _FAMILY_NAME = 1, 2


def header(command: int, version: int) -> bytes:
    return _HEADER.pack(command, version, 0)


def body(payload: bytes) -> bytes:
    """What a family's message holds after the header."""
    if len(payload) < SIZE:
        raise Malformed(f"a generic message of {len(payload)} bytes")
    return payload[SIZE:]


def by_name(name: str) -> bytes:
    return header(_GET_FAMILY, _CONTROL_VERSION) + text(_FAMILY_NAME, name)


def decode(payload: bytes) -> int:
    """The number of a family."""
    number = Attributes(body(payload)).u16(_FAMILY_ID)
    if number is None:
        raise Malformed("a generic family without a number")
    return number


def family(connection: Connection, name: str) -> int | None:
    """The number by which requests name a family; None where the kernel has no such family."""
    try:
        answer = connection.ask(_CONTROL, by_name(name))
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise refused.during(f"generic netlink family {name}") from None
    if answer is None:
        raise Malformed(f"no answer about generic netlink family {name}")
    return decode(answer)
