"""One measurement: ours and a peer take turns, and the medians are compared.

Taking turns within one run makes both sides see the same machine: its other load, its caches,
its clock rate. Whoever goes first changes from round to round. The garbage collector stays as
Python has it, since users have it so, too.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

# One round of one side: the value that counts, in the unit of its comparison.
Side: TypeAlias = Callable[[], float]


class Bar(Struct, frozen=True):
    """What is promised of the medians: `ours / peer` or `ours - peer` is at most `limit`."""

    quantity: Literal["ours / peer", "ours - peer"]
    limit: float

    def text(self, unit: str) -> str:
        return f"{self.quantity} <= {self.limit:g}" + (f" {unit}" if self.quantity == "ours - peer" else "")

    def met(self, ours: float, peer: float) -> bool:
        return (ours / peer if self.quantity == "ours / peer" else ours - peer) <= self.limit


class Comparison(Struct, frozen=True):
    """Something to measure: `what` says what each side does in a round."""

    name: str
    what: str
    ours: Side
    peer: Side
    rounds: int
    warmup: int = 5
    unit: str = "ms"
    bar: Bar | None = None


class Unmeasurable(Struct, frozen=True):
    """Something that cannot be measured here, and why. It is shown, not left out."""

    name: str
    what: str
    reason: str
    unit: str = "ms"
    bar: Bar | None = None


class Samples(Struct, frozen=True):
    ours: tuple[float, ...]
    peer: tuple[float, ...]


def measure(comparison: Comparison) -> Samples:
    sides = (comparison.ours, comparison.peer)
    for _ in range(comparison.warmup):
        for side in sides:
            side()
    values: tuple[list[float], list[float]] = ([], [])
    for number in range(comparison.rounds):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            values[index].append(sides[index]())
    return Samples(tuple(values[0]), tuple(values[1]))


def milliseconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def median(values: tuple[float, ...]) -> float:
    return statistics.median(values)


def p99(values: tuple[float, ...]) -> float:
    """The nearest rank: of a hundred values, the second largest."""
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]
