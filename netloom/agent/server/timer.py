"""The course of one operation: where its time goes, and what became known of it on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...journal import Attachment


class Course:
    def __init__(self) -> None:
        self.started = time.time()
        self._began = self._last = time.perf_counter()
        self.phases: dict[str, float] = {}
        # Which attachment it is about, once that is known.
        self.attachment: Attachment | None = None

    def lap(self, phase: str) -> None:
        """The time since the last lap was this phase's."""
        now = time.perf_counter()
        self.phases[phase] = round(self.phases.get(phase, 0.0) + (now - self._last) * 1000, 3)
        self._last = now

    @property
    def total(self) -> float:
        """From its beginning to its last lap."""
        return round((self._last - self._began) * 1000, 3)
