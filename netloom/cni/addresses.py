"""Addresses in results: checked when they come in, written as Go writes them.

Text in, text out. A dotted quad has one way to be written and needs no more than a look;
`ipaddress` is imported at the first other address, because it costs a plugin 4 ms to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address


def canonical_ip(text: str) -> str:
    """An address without a prefix, such as a gateway.

    >>> canonical_ip("2001:DB8::0:1")
    '2001:db8::1'
    """
    return text if _is_dotted_quad(text) else str(_plain(_parse(text)))


def canonical_cidr(text: str) -> str:
    """An address with its prefix length; the host bits stay.

    >>> canonical_cidr("10.1.2.3/24")
    '10.1.2.3/24'
    """
    address, slash, prefix = text.partition("/")
    if not slash or not (prefix.isascii() and prefix.isdigit()):
        raise ValueError(f"invalid CIDR address: {text}")
    length = int(prefix.lstrip("0")[:9] or "0")
    if _is_dotted_quad(address) and length <= 32:
        return f"{address}/{length}"
    parsed = _parse(address, text)
    if length > parsed.max_prefixlen:
        raise ValueError(f"invalid CIDR address: {text}")
    plain = _plain(parsed)
    if plain.version != parsed.version:
        length = max(0, length - 96)
    return f"{plain}/{length}"


def is_ipv4(cidr: str) -> bool:
    return ":" not in cidr


def _is_dotted_quad(text: str) -> bool:
    parts = text.split(".")
    # No leading zeros: some read them as octal.
    return len(parts) == 4 and all(
        part.isascii() and part.isdecimal() and (part[0] != "0" or part == "0") and int(part[:4]) < 256
        for part in parts
    )


def _parse(address: str, text: str | None = None) -> IPv4Address | IPv6Address:
    from ipaddress import ip_address

    kind = "IP" if text is None else "CIDR"
    if "%" in address:
        raise ValueError(f"invalid {kind} address: {text or address}")
    try:
        return ip_address(address)
    except ValueError:
        raise ValueError(f"invalid {kind} address: {text or address}") from None


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address that came as IPv6 (::ffff:10.0.0.1) is an IPv4 address."""
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
