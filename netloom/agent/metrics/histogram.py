"""How often something took how long: a few numbers that are cheap to count up.

One thread counts, and any may read: it sees numbers that were true a moment ago.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the upper ends of buckets, each in its own; what is above the last has one more."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """For each bound, how many were not above it; at last, how many there were."""
        counted, reached = 0, []
        for count in tuple(self.counts):
            counted += count
            reached.append(counted)
        return reached
