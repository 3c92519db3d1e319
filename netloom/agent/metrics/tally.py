"""Counters and durations of the agent's work, for `netloom status` and for metrics.

Every ADD updates them, so an update may cost only some microseconds: no lock, no formatting, no second
lookup. Requests cannot create series: unknown values are counted as `other`.
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
# Codes of the specification, and netloom's own.
CODES = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51, 100, 101, 102, 103, 104, 105, 999})
_OTHER = "other"
# Objects that every attachment has: their series exist from the start, at 0.
_USUAL = ("address", "neighbour", "nft-element", "route", "sysctl", "up", "veth")


class Tally:
    def __init__(self) -> None:
        self.started = time.time()
        self._counters: Counter[str] = Counter()
        self.durations = {verb: Histogram(OPERATION_BUCKETS) for verb in VERBS}
        self.phases: dict[str, dict[str, Histogram]] = {verb: {} for verb in VERBS}
        self.errors: Counter[tuple[str, str]] = Counter()
        self.put_back: Counter[str] = Counter(dict.fromkeys(_USUAL, 0))
        # The key says whether the transaction waited for the disk. The journal's thread updates these.
        self.commits = {durable: Histogram(COMMIT_BUCKETS) for durable in (True, False)}

    @property
    def counters(self) -> Counter[str]:
        """A copy of the counters that `netloom status` shows, by name."""
        return Counter(self._counters)

    def count(self, name: str, by: int = 1) -> None:
        self._counters[name] += by

    def operation(self, verb: str, code: int, timer: Timer) -> None:
        """Records a finished operation. `verb` is one of `VERBS`; `code` is 0 on success."""
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
        """Counts the plan's objects with these labels as put back."""
        for it in plan.objects:
            if it.label in labels:
                self.put_back[str(type(it).__struct_config__.tag)] += 1

    def commit(self, took: float, durable: bool) -> None:
        self.commits[durable].observe(took)
