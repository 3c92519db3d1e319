"""A field of a model packet, some bits of which may be open, and how rules compare with it."""

from __future__ import annotations

import sys
from enum import Enum
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple


class Truth(Enum):
    """Whether a match holds.

    `OPEN` depends on bits that the model packet leaves open, such as a port. `UNCLEAR` depends on something
    that this code cannot evaluate: a rate limit, an ipset, an unknown extension.
    """

    NO = "no"
    YES = "yes"
    OPEN = "open"
    UNCLEAR = "unclear"

    def __invert__(self) -> Truth:
        return _NEGATED.get(self, self)

    def __and__(self, other: Truth) -> Truth:
        if Truth.NO in (self, other):
            return Truth.NO
        if Truth.OPEN in (self, other):
            return Truth.OPEN
        return Truth.UNCLEAR if Truth.UNCLEAR in (self, other) else Truth.YES

    def __or__(self, other: Truth) -> Truth:
        return ~(~self & ~other)


_NEGATED = {Truth.NO: Truth.YES, Truth.YES: Truth.NO}


def truth(value: bool) -> Truth:
    return Truth.YES if value else Truth.NO


class Field(NamedTuple):
    """`size` bytes as a big-endian number. Bits outside `known` may have any value.

    `clear` is false if bits are unknown because an unevaluated rule may have set them.
    """

    size: int
    value: int
    known: int
    clear: bool = True

    @classmethod
    def of(cls, data: bytes) -> Field:
        return cls(len(data), int.from_bytes(data, "big"), (1 << 8 * len(data)) - 1)

    @classmethod
    def number(cls, value: int, size: int = 4) -> Field:
        """Returns a field of a number in this machine's byte order."""
        return cls.of(value.to_bytes(size, sys.byteorder))

    @classmethod
    def open(cls, size: int, *, clear: bool = True) -> Field:
        return cls(size, 0, 0, clear)

    @classmethod
    def network(cls, network: IPv4Network | IPv6Network) -> Field:
        """Returns a field that any address of a network matches."""
        size = network.max_prefixlen // 8
        return cls(size, int(network.network_address), int(network.netmask))

    @property
    def is_known(self) -> bool:
        return self.known == (1 << 8 * self.size) - 1

    @property
    def unsure(self) -> Truth:
        return Truth.OPEN if self.clear else Truth.UNCLEAR

    @property
    def low(self) -> int:
        return self.value & self.known

    @property
    def high(self) -> int:
        return self.low | ~self.known & (1 << 8 * self.size) - 1

    @property
    def data(self) -> bytes:
        """The bytes, with zeros for unknown bits."""
        return self.low.to_bytes(self.size, "big")

    def part(self, start: int, size: int) -> Field:
        """Returns a part of the bytes. Bytes beyond the end are open."""
        wanted = 8 * (self.size - start - size)
        mask = (1 << 8 * size) - 1
        if wanted >= 0:
            return Field(size, self.value >> wanted & mask, self.known >> wanted & mask, self.clear)
        return Field(size, self.value << -wanted & mask, self.known << -wanted & mask, self.clear)

    def equals(self, wanted: int) -> Truth:
        if (self.value ^ wanted) & self.known:
            return Truth.NO
        return Truth.YES if self.is_known else self.unsure

    def within(self, low: int, high: int) -> Truth:
        if low <= self.low and self.high <= high:
            return Truth.YES
        return Truth.NO if self.high < low or high < self.low else self.unsure

    def has_any(self, bits: int) -> Truth:
        """Says whether one of these bits is set."""
        if self.value & self.known & bits:
            return Truth.YES
        return Truth.NO if self.known & bits == bits else self.unsure

    def masked(self, mask: int, xor: int = 0) -> Field:
        return Field(
            self.size,
            self.value & mask ^ xor,
            self.known | ~mask & (1 << 8 * self.size) - 1,
            self.clear,
        )

    def swapped(self, unit: int) -> Field:
        """Returns the field with the bytes of every unit in reverse order."""

        def turned(number: int) -> int:
            data = number.to_bytes(self.size, "big")
            return int.from_bytes(
                b"".join(data[at : at + unit][::-1] for at in range(0, self.size, unit)), "big"
            )

        return Field(self.size, turned(self.value), turned(self.known), self.clear)

    def native(self) -> Field:
        """Returns a number with its bytes in this machine's order."""
        return self.swapped(self.size) if sys.byteorder == "little" else self


def joined(*fields: Field) -> Field:
    size = value = known = 0
    clear = True
    for it in fields:
        size, value, known = size + it.size, value << 8 * it.size | it.value, known << 8 * it.size | it.known
        clear = clear and it.clear
    return Field(size, value, known, clear)
