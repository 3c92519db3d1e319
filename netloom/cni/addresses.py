"""Addresses in results: checked when they come in, written as Go writes them.

Text in, text out. A dotted quad has one way to be written and needs no more than a look. For the
rest the C library is asked; its module is imported at the first such address, because a plugin
that has none need not wait for it. Most addresses come by more than once, and are remembered.
"""

from __future__ import annotations

from functools import lru_cache

_MAPPED = b"\0" * 10 + b"\xff\xff"  # ::ffff:0:0/96, IPv4 addresses as IPv6


@lru_cache(maxsize=1024)
def canonical_ip(text: str) -> str:
    """An address without a prefix, such as a gateway.

    >>> canonical_ip("2001:DB8::0:1")
    '2001:db8::1'
    """
    if _is_dotted_quad(text):
        return text
    canonical = _canonical_ipv6(text)
    if canonical is None:
        raise ValueError(f"invalid IP address: {text}")
    return canonical


@lru_cache(maxsize=1024)
def canonical_cidr(text: str) -> str:
    """An address with its prefix length; the host bits stay.

    >>> canonical_cidr("10.1.2.3/24")
    '10.1.2.3/24'
    >>> canonical_cidr("::ffff:10.1.2.3/120")
    '10.1.2.3/24'
    """
    address, slash, prefix = text.partition("/")
    if slash and prefix.isascii() and prefix.isdigit():
        length = int(prefix.lstrip("0")[:9] or "0")
        if length <= 32 and _is_dotted_quad(address):
            return f"{address}/{length}"
        if length <= 128 and (canonical := _canonical_ipv6(address)) is not None:
            return f"{canonical}/{max(0, length - 96) if is_ipv4(canonical) else length}"
    raise ValueError(f"invalid CIDR address: {text}")


def is_ipv4(cidr: str) -> bool:
    return ":" not in cidr


def _is_dotted_quad(text: str) -> bool:
    parts = text.split(".")
    # No leading zeros: some read them as octal.
    return len(parts) == 4 and all(
        part.isascii() and part.isdecimal() and (part[0] != "0" or part == "0") and int(part[:4]) < 256
        for part in parts
    )


def _canonical_ipv6(text: str) -> str | None:
    """The one form of RFC 5952, or of the IPv4 address that is mapped into it; None if it is no address."""
    from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

    try:
        packed = inet_pton(AF_INET6, text)
    except (OSError, ValueError):
        return None
    if packed.startswith(_MAPPED):
        return inet_ntop(AF_INET, packed[12:])
    canonical = inet_ntop(AF_INET6, packed)
    if "." in canonical:  # the C library's old form of ::/96, which only it writes
        return f"::{packed[12:14].hex().lstrip('0')}:{packed[14:].hex().lstrip('0') or '0'}"
    return canonical
