"""What is counted while the agent works: for `netloom status`, and for metrics.

It is on the way of every ADD, so it costs some microseconds: no lock, no text, and nothing that has to be
looked up twice. Whatever a request brings, there is a fixed number of series: what is not known is `other`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

from ...kernel import Plan
from ..server.record import Timer
from .exposition import Histogram
from .metrics import COMMIT_BUCKETS, OPERATION_BUCKETS, PHASE_BUCKETS

VERBS = ("ADD", "CHECK", "DEL", "GC", "STATUS", "other")
PHASES = frozenset({
    "judge", "queue", "reserve", "kernel", "commit", "undo", "flows", "answer", "mark", "release", "journal",
    "list", "delete",
})  # fmt: skip
# The specification's, and netloom's own.
CODES = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51, 100, 101, 102, 103, 104, 105, 999})
_OTHER = "other"
# What every attachment has, so that their series begin at 0.
_USUAL = ("address", "neighbour", "nft-element", "route", "sysctl", "up", "veth")


class Tally:
    def __init__(self) -> None:
        self.started = time.time()
        self._counters: Counter[str] = Counter()
        self.durations = {verb: Histogram(OPERATION_BUCKETS) for verb in VERBS}
        self.phases: dict[str, dict[str, Histogram]] = {verb: {} for verb in VERBS}
        self.errors: Counter[tuple[str, str]] = Counter()
        self.put_back: Counter[str] = Counter(dict.fromkeys(_USUAL, 0))
        # By whether the disk was waited for. The journal's thread counts these.
        self.commits = {durable: Histogram(COMMIT_BUCKETS) for durable in (True, False)}

    @property
    def counters(self) -> Counter[str]:
        """A copy of what `netloom status` shows, by its names."""
        return Counter(self._counters)

    def count(self, name: str, by: int = 1) -> None:
        self._counters[name] += by

    def operation(self, verb: str, code: int, timer: Timer) -> None:
        """One is over. `verb` is one of `VERBS`, `code` 0 if it succeeded."""
        self.durations[verb].observe(timer.total / 1000)
        phases = self.phases[verb]
        for phase, took in timer.phases.items():
            histogram = phases.get(phase)
            if histogram is None:
                named = phase if phase in PHASES else _OTHER
                histogram = phases.setdefault(named, Histogram(PHASE_BUCKETS))
            histogram.observe(took / 1000)
        if code:
            self.errors[verb, str(code) if code in CODES else _OTHER] += 1

    def repaired(self, plan: Plan, labels: Collection[str]) -> None:
        """Objects of a plan were put back."""
        for it in plan.objects:
            if it.label in labels:
                self.put_back[str(type(it).__struct_config__.tag)] += 1

    def commit(self, took: float, durable: bool) -> None:
        self.commits[durable].observe(took)
