"""Addresses that no container can have, whatever a config says."""

from __future__ import annotations

from ..kernel.values import packed_network
from .ranges import span

_RESERVED = (
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "class E and broadcast"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4 written as IPv6"),
    ("fd6e:6574:6c6f:6f6d::/64", "netloom's own, on every node"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
)


_SPANS = tuple(
    (len(packed), *span(packed, prefix), f"{cidr} ({what})")
    for cidr, what in _RESERVED
    for packed, prefix in (packed_network(cidr),)
)


def reserved_part(packed: bytes, prefix: int) -> str | None:
    """The reserved network that a network shares addresses with, for an error's text.

    >>> reserved_part(bytes([126, 0, 0, 0]), 7)
    '127.0.0.0/8 (loopback)'
    """
    low, high = span(packed, prefix)
    for size, first, last, name in _SPANS:
        if size == len(packed) and first <= high and low <= last:
            return name
    return None


def borders(width: int, prefix: int, network: int) -> tuple[tuple[int, str], ...]:
    """The addresses at a network's ends that have a meaning of their own, for a width in bytes.

    RFC 3021 (/31) and RFC 6164 (/127) give them to hosts, and a single address has no ends.
    """
    if width == 4 and prefix < 31:
        return (network, "network address"), (network + (1 << (32 - prefix)) - 1, "broadcast address")
    if width == 16 and prefix < 127:
        return ((network, "subnet-router anycast address"),)
    return ()
