"""Data types of nftables: their values as text and in the kernel's registers."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import InvalidObject


class NftType(NamedTuple):
    """How values of one of nft's data types are written as text and in the kernel's registers."""

    name: str
    size: int
    pack: Callable[[str], bytes]
    show: Callable[[bytes], str]


_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


def _number(text: str, size: int, order: str = "big") -> bytes:
    try:
        return int(text[:32], 0).to_bytes(size, "big" if order == "big" else sys.byteorder)
    except (ValueError, OverflowError):
        raise InvalidObject(f"{text[:80]!r} is not a number of {size} bytes") from None


def _ip(family: int) -> Callable[[str], bytes]:
    def pack(text: str) -> bytes:
        try:
            return socket.inet_pton(family, text)
        except (OSError, ValueError):
            raise InvalidObject(
                f"{text!r} is not an {'IPv4' if family == socket.AF_INET else 'IPv6'} address"
            ) from None

    return pack


def _service(text: str) -> bytes:
    try:
        return _number(text, 2)
    except InvalidObject:
        raise InvalidObject(f"{text!r} is not a port number") from None


_PROTOCOLS = {
    "icmp": 1,
    "tcp": 6,
    "udp": 17,
    "icmpv6": 58,
    "sctp": 132,
    "udplite": 136,
    "dccp": 33,
    "esp": 50,
}
_PROTOCOL_NAMES = {number: name for name, number in _PROTOCOLS.items()}


def _protocol(text: str) -> bytes:
    return bytes([_PROTOCOLS[text]]) if text in _PROTOCOLS else _number(text, 1)


def _ifname(text: str) -> bytes:
    data = text.encode()
    if len(data) > 15:
        raise InvalidObject(f"{text!r} is too long for an interface name")
    return data.ljust(16, b"\0")


def _mac(text: str) -> bytes:
    if not _MAC.fullmatch(text):
        raise InvalidObject(f"{text[:80]!r} is not a MAC address")
    return bytes.fromhex(text.replace(":", ""))


# By the numbers that nft stores with a set, so that other programs can read it.
_FORMS = {
    7: NftType("ipv4_addr", 4, _ip(socket.AF_INET), lambda data: socket.inet_ntop(socket.AF_INET, data)),
    8: NftType("ipv6_addr", 16, _ip(socket.AF_INET6), lambda data: socket.inet_ntop(socket.AF_INET6, data)),
    9: NftType("ether_addr", 6, _mac, lambda data: data.hex(":")),
    12: NftType("inet_proto", 1, _protocol, lambda data: _PROTOCOL_NAMES.get(data[0], str(data[0]))),
    13: NftType("inet_service", 2, _service, lambda data: str(int.from_bytes(data, "big"))),
    19: NftType(
        "mark",
        4,
        lambda text: _number(text, 4, "host"),
        lambda data: str(int.from_bytes(data, sys.byteorder)),
    ),
    41: NftType("ifname", 16, _ifname, lambda data: data.rstrip(b"\0").decode("utf-8", "surrogateescape")),
}


_BY_NAME = {form.name: form for form in _FORMS.values()}


def pack(forms: Sequence[NftType], values: Sequence[str]) -> bytes:
    """Packs values as the kernel compares them: each part of a concatenation fills registers of 4 bytes."""
    if len(forms) != len(values):
        raise InvalidObject(
            f"{len(values)} values where the set has {len(forms)}: {' . '.join(form.name for form in forms)}"
        )
    packed = [form.pack(value) for form, value in zip(forms, values, strict=True)]
    if len(packed) == 1:
        return packed[0]
    return b"".join(data + bytes(-len(data) % 4) for data in packed)


def show(forms: Sequence[NftType], data: bytes) -> tuple[str, ...]:
    shown = []
    for form in forms:
        piece = data[: form.size]
        shown.append(form.show(piece) if len(piece) == form.size else piece.hex())
        data = data[form.size + (-form.size % 4) :]
    return tuple(shown)


def forms_of(number: int) -> tuple[NftType, ...] | None:
    """Returns the types of a concatenation's parts, six bits each."""
    forms = []
    while number:
        forms.append(_FORMS.get(number & 0x3F))
        number >>= 6
    known = tuple(form for form in reversed(forms) if form is not None)
    return known if len(known) == len(forms) else None


def forms_named(types: str) -> tuple[NftType, ...] | None:
    """Returns the types that nft writes as `ifname . ipv4_addr`; None if one is unknown."""
    forms = [_BY_NAME.get(name) for name in types.split(" . ")]
    known = tuple(form for form in forms if form is not None)
    return known if len(known) == len(forms) else None
