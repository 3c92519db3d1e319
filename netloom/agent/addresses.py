"""The addresses that an attachment has, from the result that the journal keeps of it."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class _Ip(Struct):
    address: str


class _Addresses(Struct):
    ips: tuple[_Ip, ...] = ()


_addresses = msgspec.json.Decoder(_Addresses)


def addresses_of(result: bytes) -> tuple[str, ...]:
    """Of a result as the journal has it, without prefixes."""
    try:
        return tuple(it.address.partition("/")[0] for it in _addresses.decode(result).ips)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()
