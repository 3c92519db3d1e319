"""Values of kernel objects: checked when an object is created, packed when it is sent."""

from __future__ import annotations

import re
import socket
from functools import lru_cache

from .errors import InvalidObject

# RFC 8200, section 5. On a link with a smaller MTU, the kernel has no IPv6 and no settings for it.
IPV6_MTU = 1280

_NAME = re.compile(r"[^\s/:%\0]{1,15}")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


# The same few values recur for one attachment.
_remembered = lru_cache(maxsize=4096)


@_remembered
def require_link_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", "..") or not _fits(name):
        raise InvalidObject(
            f"{name[:40]!r} is not a valid link name: at most 15 bytes, no space, '/', ':' or '%'"
        )


def _fits(name: str) -> bool:
    try:
        return len(name.encode()) <= 15
    except UnicodeEncodeError:
        return False


def is_passable(text: str) -> bool:
    """Says whether a system call accepts it: no NUL, and no half of a surrogate pair."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


@_remembered
def require_mac(mac: str | None) -> None:
    if mac is None:
        return
    if not _MAC.fullmatch(mac):
        raise InvalidObject(f"{mac[:40]!r} is not a MAC address, such as 02:00:00:00:00:01 in lower case")
    if int(mac[1], 16) & 1:
        raise InvalidObject(f"{mac} is a multicast MAC address, which no link can have")


def require_range(what: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise InvalidObject(f"{what} {value} is not from {low} to {high}")


@_remembered
def packed_ip(text: str) -> bytes:
    """Packs an address of either family.

    >>> packed_ip("10.0.0.1").hex()
    '0a000001'
    """
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        raise InvalidObject(f"{text[:60]!r} is not an IP address") from None


@_remembered
def packed_cidr(text: str) -> tuple[bytes, int]:
    """Packs an address and returns its prefix length; without a prefix, all of its bits."""
    address, slash, length = text.partition("/")
    packed = packed_ip(address)
    if not slash:
        return packed, len(packed) * 8
    if not (length.isascii() and length.isdecimal() and len(length) <= 3 and int(length) <= len(packed) * 8):
        raise InvalidObject(f"{text[:60]!r} has an invalid prefix length")
    return packed, int(length)


@_remembered
def packed_network(text: str) -> tuple[bytes, int]:
    """Like `packed_cidr`, for a network: no bit may be set after the prefix."""
    packed, prefix = packed_cidr(text)
    if int.from_bytes(packed, "big") & ((1 << (len(packed) * 8 - prefix)) - 1):
        raise InvalidObject(f"{text} has bits set after its prefix of {prefix}")
    return packed, prefix


def family_of(packed: bytes) -> int:
    return socket.AF_INET if len(packed) == 4 else socket.AF_INET6


def shown_ip(packed: bytes) -> str:
    return socket.inet_ntop(family_of(packed), packed)
