"""One measurement: ours and a peer alternate, and their medians are compared.

Alternating within one run shows both sides the same machine: its other load, its caches, its clock rate. The
side that begins changes from turn to turn. A turn is one round, or several if the measurement is about a
sequence. The garbage collector keeps Python's defaults, since users have these, too.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")

# One round of one side: its value, in the unit of its comparison.
Side: TypeAlias = Callable[[], float]


class Bar(Struct, frozen=True):
    """A promise: `ours / peer`, `ours - peer`, or `ours` alone is at most `limit`, or at least."""

    quantity: Literal["ours / peer", "ours - peer", "ours"]
    limit: float
    sense: Literal["<=", ">="] = "<="

    def text(self, unit: str) -> str:
        promise = f"{self.quantity} {self.sense} {self.limit:g}"
        return promise if self.quantity == "ours / peer" else f"{promise} {unit}"

    def met(self, ours: float, peer: float | None) -> bool:
        value = self._value(ours, peer)
        return value <= self.limit if self.sense == "<=" else value >= self.limit

    def _value(self, ours: float, peer: float | None) -> float:
        if self.quantity == "ours":
            return ours
        if peer is None:
            raise ValueError(f"there is no peer for a bar on {self.quantity}")
        return ours / peer if self.quantity == "ours / peer" else ours - peer


class Quantity(Struct, frozen=True):
    """A measured number: `what` says what each side does in a round.

    `bar` is a promise about the median, `p99_bar` about the slowest hundredth.
    """

    name: str
    what: str
    unit: str = "ms"
    bar: Bar | None = None
    p99_bar: Bar | None = None

    @property
    def more_is_better(self) -> bool:
        """Says whether more is better: not for a time, but for a quantity whose bar is a minimum."""
        return self.bar is not None and self.bar.sense == ">="


class Comparison(Quantity, frozen=True, kw_only=True):
    """A quantity with rounds of its own. Without a peer, only ours is measured."""

    ours: Side
    peer: Side | None
    rounds: int
    warmup: int = 5


class Together(Struct, frozen=True, kw_only=True):
    """Several quantities of the same rounds, such as an ADD and the DEL after it: each round gives a value
    for each.

    `at_a_turn` is the number of rounds that a side does in a row.
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


class Rivals(Struct, frozen=True, kw_only=True):
    """The same with several named peers: the bars compare with the fastest, quantity by quantity."""

    quantities: tuple[Quantity, ...]
    ours: Callable[[], tuple[float, ...]]
    peers: Mapping[str, Callable[[], tuple[float, ...]]]
    rounds: int
    warmup: int = 5
    at_a_turn: int = 1

    @property
    def name(self) -> str:
        return ", ".join(quantity.name for quantity in self.quantities)


class Unmeasurable(Quantity, frozen=True, kw_only=True):
    """Something that cannot be measured here, and why. The report shows it."""

    reason: str


class Remark(Struct, frozen=True):
    """A text below the table."""

    text: str


Item: TypeAlias = Comparison | Together | Rivals | Unmeasurable | Remark


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


def measure_rivals(rivals: Rivals) -> list[tuple[Quantity, Samples]]:
    """Yields the fastest peer for each quantity, then the others, which have their own names and no bar."""
    it = rivals
    ours, *others = _taking_turns([it.ours, *it.peers.values()], it.rounds, it.warmup, it.at_a_turn)
    found = []
    for number, quantity in enumerate(it.quantities):
        mine = tuple(values[number] for values in ours)
        theirs = {
            name: tuple(values[number] for values in rounds)
            for name, rounds in zip(it.peers, others, strict=True)
        }
        fastest, *slower = sorted(theirs, key=lambda name: median(theirs[name]))
        against = replace(quantity, what=f"{quantity.what}, with {fastest}")
        found.append((against, Samples(mine, theirs[fastest])))
        for name in slower:
            against = Quantity(f"{quantity.name}_{name}", f"{quantity.what}, with {name}", quantity.unit)
            found.append((against, Samples(mine, theirs[name])))
    return found


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
    """Returns how long an action takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float], more_is_better: bool = False) -> float:
    """Returns the nearest rank: of a hundred values, the second worst."""
    return sorted(values, reverse=more_is_better)[math.ceil(len(values) * 0.99) - 1]
