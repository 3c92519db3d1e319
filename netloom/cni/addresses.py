"""Addresses in results: checked when they are decoded, written as Go writes them.

Input and output are text. A dotted quad has only one spelling, so a regular expression is enough. For other
addresses the C library is called; its module is imported at the first such address, because most plugins have
none. Most addresses occur more than once, so results are cached.
"""

from __future__ import annotations

from functools import lru_cache

_MAPPED = b"\0" * 10 + b"\xff\xff"  # ::ffff:0:0/96, IPv4 addresses as IPv6


@lru_cache(maxsize=1024)
def canonical_ip(text: str) -> str:
    """Checks and normalises an address without a prefix, such as a gateway.

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
    """Checks and normalises an address with its prefix length; the host bits stay.

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
    # No leading zeros: some programs read them as octal.
    return len(parts) == 4 and all(
        part.isascii() and part.isdecimal() and (part[0] != "0" or part == "0") and int(part[:4]) < 256
        for part in parts
    )


def _canonical_ipv6(text: str) -> str | None:
    """Returns the form of RFC 5952, or the mapped IPv4 address; None for an invalid address."""
    from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

    try:
        packed = inet_pton(AF_INET6, text)
    except (OSError, ValueError):
        return None
    if packed.startswith(_MAPPED):
        return inet_ntop(AF_INET, packed[12:])
    canonical = inet_ntop(AF_INET6, packed)
    if "." in canonical:  # an obsolete form of ::/96, which only the C library writes
        return f"::{packed[12:14].hex().lstrip('0')}:{packed[14:].hex().lstrip('0') or '0'}"
    return canonical
