"""How far something is that takes long: a line on a terminal, which is gone when it is done."""

from __future__ import annotations

import sys
import time
from typing import Self

# What is over sooner needs no line; and a person reads no more than some a second.
_SOON = 0.5
_EVERY = 0.1


class Progress:
    """Shown on standard error, where that is a terminal: output stays as it is."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _SOON
        self._is_shown = False
        self._is_wanted = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._write("\r\x1b[K")

    def tell(self, done: int, of: int) -> None:
        now = time.monotonic()
        if self._is_wanted and now >= self._next:
            self._write(f"\r\x1b[K{self._what}: {done} of {of} ")
            self._next = now + _EVERY
            self._is_shown = True

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
