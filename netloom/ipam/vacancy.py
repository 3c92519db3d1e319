"""Which addresses of a pool can be had now, found without listing any.

Whether a stretch of a pool has one is a matter of counting: fewer rows than addresses. So the first
vacant address is found by counting one stretch after the other, longer ones the farther it goes, and
halving the first that is not full. SQLite counts ten rows in a microsecond, and what has no row costs
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from .holdings import Holdings
from .pool import Pool

_SHORTEST, _LONGEST = 64, 4096


class Vacancies(NamedTuple):
    """`since` is the moment after which a released address still rests."""

    pool: Pool
    holdings: Holdings
    scope: str
    since: float

    def has(self, ip: bytes) -> bool:
        return self.holdings.released_at(self.scope, ip) <= self.since

    def first(self, start: int, stop: int) -> bytes | None:
        """The first in a stretch of ordinals."""
        length = _SHORTEST
        while start < stop:
            end = min(start + length, stop)
            if self._any(start, end):
                return self.pool.at(self._narrowed(start, end))
            start = end
            length = min(length * 4, _LONGEST)
        return None

    def _narrowed(self, start: int, end: int) -> int:
        while end - start > 1:
            middle = (start + end) // 2
            if self._any(start, middle):
                end = middle
            else:
                start = middle
        return start

    def _any(self, start: int, stop: int) -> bool:
        occupied = 0
        for low, high in self.pool.spans(start, stop):
            held, resting = self.holdings.tally(self.scope, low, high, self.since)
            occupied += held + resting
        return occupied < stop - start
