"""Ranges of whole numbers, both ends included: what is excluded, and what that leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same numbers in as few ranges as it takes, in order.

    >>> merged([(7, 9), (1, 3), (4, 5)])
    ((1, 5), (7, 9))
    """
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def without(whole: Range, holes: Iterable[Range]) -> tuple[Range, ...]:
    """What is left of a range; the holes are merged ones inside of it.

    >>> without((0, 9), [(0, 0), (4, 5)])
    ((1, 3), (6, 9))
    """
    low, high = whole
    left: list[Range] = []
    for first, last in holes:
        if low < first:
            left.append((low, first - 1))
        low = last + 1
    if low <= high:
        left.append((low, high))
    return tuple(left)


def span(packed: bytes, prefix: int) -> Range:
    """The first and the last number of a network.

    >>> span(bytes([0, 0, 1, 0]), 24)
    (256, 511)
    """
    first = int.from_bytes(packed, "big")
    return first, first | ((1 << (len(packed) * 8 - prefix)) - 1)
