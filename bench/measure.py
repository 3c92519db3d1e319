"""One measurement: ours and a peer take turns, and the medians are compared.

Taking turns within one run makes both sides see the same machine: its other load, its caches,
its clock rate. Whoever goes first changes from turn to turn. A turn is one round, or several where what
is asked one after the other is what counts. The garbage collector stays as Python has it, since users
have it so, too.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")

# One round of one side: the value that counts, in the unit of its comparison.
Side: TypeAlias = Callable[[], float]


class Bar(Struct, frozen=True):
    """What is promised: `ours / peer`, `ours - peer`, or `ours` alone is at most `limit`."""

    quantity: Literal["ours / peer", "ours - peer", "ours"]
    limit: float

    def text(self, unit: str) -> str:
        return f"{self.quantity} <= {self.limit:g}" + ("" if self.quantity == "ours / peer" else f" {unit}")

    def met(self, ours: float, peer: float | None) -> bool:
        if self.quantity == "ours":
            return ours <= self.limit
        if peer is None:
            raise ValueError(f"there is no peer for a bar on {self.quantity}")
        return (ours / peer if self.quantity == "ours / peer" else ours - peer) <= self.limit


class Quantity(Struct, frozen=True):
    """Something that has a number: `what` says what each side does in a round.

    `bar` is a promise on the median, `p99_bar` on the slowest hundredth.
    """

    name: str
    what: str
    unit: str = "ms"
    bar: Bar | None = None
    p99_bar: Bar | None = None


class Comparison(Quantity, frozen=True, kw_only=True):
    """A quantity with rounds of its own. Without a peer, ours is measured alone."""

    ours: Side
    peer: Side | None
    rounds: int
    warmup: int = 5


class Together(Struct, frozen=True, kw_only=True):
    """Several quantities of the same rounds, such as an ADD and the DEL that follows: a value for each.

    `at_a_turn` are the rounds that a side does in a row.
    """

    quantities: tuple[Quantity, ...]
    ours: Callable[[], tuple[float, ...]]
    peer: Callable[[], tuple[float, ...]]
    rounds: int
    warmup: int = 5
    at_a_turn: int = 1

    @property
    def name(self) -> str:
        return ", ".join(quantity.name for quantity in self.quantities)


class Unmeasurable(Quantity, frozen=True, kw_only=True):
    """Something that cannot be measured here, and why. It is shown, not left out."""

    reason: str


class Remark(Struct, frozen=True):
    """Something to read below the table."""

    text: str


Item: TypeAlias = Comparison | Together | Unmeasurable | Remark


class Samples(Struct, frozen=True):
    ours: tuple[float, ...]
    peer: tuple[float, ...] | None

    @property
    def rounds(self) -> int:
        return len(self.ours)


def measure(comparison: Comparison) -> Samples:
    sides = [comparison.ours] if comparison.peer is None else [comparison.ours, comparison.peer]
    ours, *peer = _taking_turns(sides, comparison.rounds, comparison.warmup)
    return Samples(tuple(ours), tuple(peer[0]) if peer else None)


def measure_together(together: Together) -> list[tuple[Quantity, Samples]]:
    it = together
    ours, peer = _taking_turns([it.ours, it.peer], it.rounds, it.warmup, it.at_a_turn)
    of_each = zip(zip(*ours, strict=True), zip(*peer, strict=True), strict=True)
    return [(quantity, Samples(*values)) for quantity, values in zip(it.quantities, of_each, strict=True)]


def _taking_turns(
    sides: Sequence[Callable[[], T]], rounds: int, warmup: int, at_a_turn: int = 1
) -> list[list[T]]:
    for _ in range(warmup):
        for side in sides:
            side()
    values: list[list[T]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for number in range(rounds // at_a_turn):
        for index in order if number % 2 == 0 else reversed(order):
            values[index] += [sides[index]() for _ in range(at_a_turn)]
    return values


def milliseconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """The nearest rank: of a hundred values, the second largest."""
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]
