"""A log that does not repeat itself: what fails over and over, as a disk does, must not fill the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TextIO

from ..agent.server.subject import Subject

# Within so many seconds the same is said once, and what is alike so many times; the rest is counted.
_WINDOW = 60.0
_ALIKE = 50


class _Window:
    """What was said in one form of words, and since when; `held` is how many lines were not."""

    __slots__ = ("held", "last", "said", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.said: set[str] = set()
        self.held = 0
        self.last: logging.LogRecord | None = None


class CalmHandler(logging.StreamHandler[TextIO]):
    """Says the same once, and what is alike some times. How often it did not, it says afterwards."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        window: float = _WINDOW,
        alike: int = _ALIKE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._length = window
        self._alike = alike
        self._clock = clock
        self._windows: dict[tuple[str, int, str], _Window] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """The handler's lock is held."""
        self._say_what_is_due()
        if self._may_be_said(record):
            super().emit(record)

    def close(self) -> None:
        with self.lock or threading.RLock():
            self._say_what_is_due(at_the_end=True)
            if self._timer is not None:
                self._timer.cancel()
        super().close()

    def _may_be_said(self, record: logging.LogRecord) -> bool:
        form = (record.name, record.levelno, str(record.msg))
        window = self._windows.setdefault(form, _Window(self._clock()))
        text = record.getMessage()
        if record.exc_info:
            text += f" {record.exc_info[1]!r}"
        if text not in window.said and len(window.said) < self._alike:
            window.said.add(text)
            return True
        window.held += 1
        window.last = record
        self._remind()
        return False

    def _say_what_is_due(self, *, at_the_end: bool = False) -> None:
        now = self._clock()
        for form, window in list(self._windows.items()):
            if at_the_end or now - window.since >= self._length:
                del self._windows[form]
                if window.last is not None:
                    super().emit(self._summary(window, window.last, now))

    def _summary(self, window: _Window, last: logging.LogRecord, now: float) -> logging.LogRecord:
        text = f"{window.held} more lines like this within {now - window.since:.0f} s: {last.getMessage()}"
        summary = logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None)
        summary.subject = Subject()
        return summary

    def _remind(self) -> None:
        """It may be the last line for hours."""
        if self._timer is None:
            self._timer = threading.Timer(self._length, self._later)
            self._timer.daemon = True
            self._timer.start()

    def _later(self) -> None:
        with self.lock or threading.RLock():
            self._timer = None
            self._say_what_is_due()
            if any(window.held for window in self._windows.values()):
                self._remind()
