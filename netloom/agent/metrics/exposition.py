"""Metrics in Prometheus's text format, version 0.0.4; and histograms that are cheap to update."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import TypeAlias

from msgspec import Struct

from .metrics import METRICS, Metric


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the inclusive upper ends of the buckets; one more bucket is for larger values."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """Returns for each bound how many values were not above it, and at the end the total number."""
        counted, reached = 0, []
        for count in tuple(self.counts):
            counted += count
            reached.append(counted)
        return reached


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Values of the labels, in the metric's order, and the measured value.
Sample: TypeAlias = tuple[tuple[str, ...], float | Histogram]

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
# A float represents every integer up to this one exactly.
_EXACT = 1 << 53


class Family(Struct, frozen=True):
    """A metric and all of its series."""

    metric: Metric
    samples: Sequence[Sample]


def family(name: str, samples: Iterable[Sample] | float) -> Family:
    """Returns a metric with its series. A single number is the only series of a metric without labels."""
    listed = [((), samples)] if isinstance(samples, (int, float)) else list(samples)
    return Family(METRICS[name], listed)


def exposition(families: Iterable[Family]) -> bytes:
    return "".join(line for it in families for line in _lines(it)).encode("utf-8", "replace")


def _lines(family: Family) -> Iterator[str]:
    metric = family.metric
    help_text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {metric.name} {help_text}\n# TYPE {metric.name} {metric.kind}\n"
    for values, found in family.samples:
        labels = _labels(metric.labels, values)
        if isinstance(found, Histogram):
            yield from _histogram(metric.name, labels, found)
        else:
            yield f"{metric.name}{_braced(labels)} {_number(found)}\n"


def _histogram(name: str, labels: list[str], found: Histogram) -> Iterator[str]:
    reached = found.cumulative()
    for bound, count in zip((*found.bounds, inf), reached, strict=True):
        limit = "+Inf" if bound == inf else f"{bound:g}"
        le = f'le="{limit}"'
        yield f"{name}_bucket{_braced([*labels, le])} {count}\n"
    yield f"{name}_sum{_braced(labels)} {_number(found.total)}\n{name}_count{_braced(labels)} {reached[-1]}\n"


def _labels(names: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f'{name}="{value.translate(_ESCAPED)}"' for name, value in zip(names, values, strict=True)]


def _braced(labels: Sequence[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) and abs(value) <= _EXACT else repr(float(value))
