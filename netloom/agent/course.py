"""Where the time of one operation goes."""

from __future__ import annotations

import time


class Stopwatch:
    def __init__(self) -> None:
        self.started = time.time()
        self._began = self._last = time.perf_counter()
        self.phases: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """The time since the last lap was this phase's."""
        now = time.perf_counter()
        self.phases[phase] = round(self.phases.get(phase, 0.0) + (now - self._last) * 1000, 3)
        self._last = now

    @property
    def total(self) -> float:
        return round((time.perf_counter() - self._began) * 1000, 3)
