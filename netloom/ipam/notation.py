"""How a pool's config writes networks, gateways and exclusions, and what is said of a bad one."""

from __future__ import annotations

from ..cni import InvalidConfig
from ..cni.names import shortened
from ..kernel.errors import InvalidObject
from ..kernel.values import packed_cidr, packed_ip, shown_ip
from .ranges import Range, span
from .reserved import borders


def network_of(what: str, text: str) -> tuple[bytes, int]:
    """A network and its prefix length, all bits if it has none. `what` begins the sentence of an error."""
    try:
        packed, prefix = packed_cidr(text)
    except InvalidObject as cause:
        raise InvalidConfig(
            f"{what} {shortened(text)!r} is no network such as 10.1.0.0/24: {cause}",
            discreet=f"{what.rstrip(':')} is no network such as 10.1.0.0/24",
        ) from None
    bits = len(packed) * 8
    value = int.from_bytes(packed, "big")
    meant = value >> (bits - prefix) << (bits - prefix)
    if value != meant:
        network = f"{shown_ip(meant.to_bytes(len(packed), 'big'))}/{prefix}"
        raise InvalidConfig(
            f"{what} {text} has bits set behind its prefix: for the network write {network}, "
            f"for the one address {shown_ip(packed)}/{bits}"
        )
    return packed, prefix


def gateway_of(text: str, cidr: str, packed: bytes, prefix: int) -> bytes:
    gateway = _address(f"gateway of pool {cidr}", text)
    low, high = span(packed, prefix)
    value = int.from_bytes(gateway, "big")
    if len(gateway) != len(packed):
        raise InvalidConfig(f"gateway {text} is not of the family of its pool {cidr}")
    if not low <= value <= high:
        raise InvalidConfig(f"gateway {text} is not in its pool {cidr}: give one that is, or none")
    for border, meaning in borders(len(packed), prefix, low):
        if value == border:
            raise InvalidConfig(f"gateway {text} is the {meaning} of its pool {cidr}")
    return gateway


def exclusion_of(text: str, cidr: str, packed: bytes, whole: Range) -> Range:
    """An address, a network, or a range with a dash. Not in the pool means a typo, not a wish."""
    what = f"exclude of pool {cidr}:"
    head, dash, tail = text.partition("-")
    if dash:
        first, last = _address(what, head.strip()), _address(what, tail.strip())
        low, high = int.from_bytes(first, "big"), int.from_bytes(last, "big")
        if len(first) != len(last) or low > high:
            wrong = "does not run from an address to a later one"
            raise InvalidConfig(f"{what} {shortened(text)!r} {wrong}", discreet=f"{what} a range {wrong}")
    else:
        first, prefix = network_of(what, text)
        low, high = span(first, prefix)
    if len(first) != len(packed) or low < whole[0] or high > whole[1]:
        wrong = "is not in the pool, or not all of it"
        raise InvalidConfig(f"{what} {shortened(text)!r} {wrong}", discreet=f"{what} an entry {wrong}")
    return low, high


def _address(what: str, text: str) -> bytes:
    try:
        return packed_ip(text)
    except InvalidObject:
        raise InvalidConfig(
            f"{what} {shortened(text)!r} is no IP address", discreet=f"{what.rstrip(':')} is no IP address"
        ) from None
