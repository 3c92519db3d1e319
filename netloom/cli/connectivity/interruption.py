"""Signals that end the command: work is cut short, what was made is still taken away.

A handler that raises at any moment would also do so in the midst of the clean-up. So the first signal raises
while there is work, and no other ever does; those that come later are remembered.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Self

from ..status import SIGNALLED

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interruption:
    def __init__(self) -> None:
        self._number = 0
        self._is_put_off = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in _ENDING:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # as nohup wants it
                self._before[number] = before
                signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def put_off(self) -> None:
        """From now on, whatever comes is remembered and nothing else."""
        self._is_put_off = True

    def deliver(self) -> None:
        """Ends the command as the signal would have, if one came."""
        if self._number == signal.SIGINT:
            raise KeyboardInterrupt
        if self._number:
            sys.exit(SIGNALLED + self._number)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._number:
            return
        self._number = number
        if not self._is_put_off:
            self.deliver()
