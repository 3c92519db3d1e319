"""Holdings: which addresses of a pool are held or rest, and their SQL."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ..cni import AttachmentKey
from ..journal.records import seconds, typed
from .pool import Pool

_RANGE = "FROM address WHERE scope = ? AND ip BETWEEN ? AND ? AND length(ip) = ?"

_RELEASED = "SELECT released FROM address WHERE scope = ? AND ip = ?"
_HOLDER = (
    "SELECT network, container_id, ifname FROM address JOIN attachment ON attachment.id = address.attachment "
    "WHERE address.scope = ? AND ip = ?"
)
_TALLY = f"SELECT count(*) - count(released), count(released) {_RANGE} AND (released IS NULL OR released > ?)"
_LONGEST_KEY = f"SELECT released, ip {_RANGE} AND released IS NOT NULL ORDER BY released, ip"
_ENTRIES = f"SELECT ip, released {_RANGE} ORDER BY ip"
_CURSOR = "SELECT ip FROM cursor WHERE scope = ? AND pool = ?"
_MOVE = (
    "INSERT INTO cursor (scope, pool, ip) VALUES (?, ?, ?) "
    "ON CONFLICT (scope, pool) DO UPDATE SET ip = excluded.ip"
)


class SqlHoldings:
    """Reads holdings and moves cursors within the connection's current transaction.

    `others` are addresses in use that are not in the journal, such as the host's own; `orphaned` are those of
    them that orphaned links have.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        others: frozenset[bytes] = frozenset(),
        orphaned: frozenset[bytes] = frozenset(),
    ) -> None:
        self._execute = connection.execute
        self._others = others
        self._orphaned = orphaned & others

    def released_at(self, scope: str, ip: bytes) -> float:
        if ip in self._others:
            return HELD
        row = self._execute(_RELEASED, (scope, ip)).fetchone()
        if row is None:
            return FREE
        return HELD if row[0] is None else seconds(row[0])

    def holder(self, scope: str, ip: bytes) -> str:
        row = self._execute(_HOLDER, (scope, ip)).fetchone()
        if row is not None:
            return str(typed(row, AttachmentKey))
        return "the host itself" if ip in self._others else "another attachment"

    def tally(self, scope: str, low: bytes, high: bytes, since: float) -> tuple[int, int]:
        held, resting = self._execute(_TALLY, (scope, low, high, len(low), since)).fetchone()
        for ip in self._others_in(low, high):
            row = self._execute(_RELEASED, (scope, ip)).fetchone()
            held += row is None or row[0] is not None
            resting -= row is not None and row[0] is not None and row[0] > since
        return held, resting

    def orphaned(self, scope: str, low: bytes, high: bytes) -> int:
        if not self._orphaned:
            return 0
        found = (ip for ip in self._others_in(low, high) if ip in self._orphaned)
        rows = (self._execute(_RELEASED, (scope, ip)).fetchone() for ip in found)
        return sum(row is None or row[0] is not None for row in rows)

    def longest_resting(self, scope: str, low: bytes, high: bytes) -> tuple[float, bytes] | None:
        rows = self._execute(_LONGEST_KEY, (scope, low, high, len(low)))
        row = next((it for it in rows if it[1] not in self._others), None)
        return None if row is None else (seconds(row[0]), typed(row[1], bytes))

    def entries(self, scope: str, low: bytes, high: bytes) -> Iterator[tuple[bytes, float]]:
        others = self._others_in(low, high)
        for ip, released in self._execute(_ENTRIES, (scope, low, high, len(low))):
            while others and others[0] < ip:
                yield others.pop(0), HELD
            if others and others[0] == ip:
                yield others.pop(0), HELD
            else:
                yield typed(ip, bytes), HELD if released is None else seconds(released)
        for ip in others:
            yield ip, HELD

    def _others_in(self, low: bytes, high: bytes) -> list[bytes]:
        """Returns the `others` in a range, in order."""
        return sorted(ip for ip in self._others if len(ip) == len(low) and low <= ip <= high)

    def cursor(self, scope: str, pool: str) -> bytes | None:
        row = self._execute(_CURSOR, (scope, pool)).fetchone()
        return None if row is None else typed(row[0], bytes)

    def move_cursor(self, scope: str, pool: str, ip: bytes) -> None:
        self._execute(_MOVE, (scope, pool, ip))


# The release times of an address that is held, and of one that was never assigned.
HELD = math.inf
FREE = -math.inf


class Holdings(Protocol):
    """The addresses of every scope, within one transaction.

    Times are seconds since boot. A released address rests; the caller decides for how long. A range includes
    both of its ends, which have the same family, and contains only addresses of that family.
    """

    def released_at(self, scope: str, ip: bytes) -> float:
        """Returns `HELD`, `FREE`, or the time of the release."""

    def holder(self, scope: str, ip: bytes) -> str:
        """Names the holder of a `HELD` address for people: an attachment, or "the host itself"."""

    def tally(self, scope: str, low: bytes, high: bytes, since: float) -> tuple[int, int]:
        """Counts the addresses of a range that are held, and those released after `since`."""

    def orphaned(self, scope: str, low: bytes, high: bytes) -> int:
        """Counts the held addresses of a range that only orphaned links hold."""

    def longest_resting(self, scope: str, low: bytes, high: bytes) -> tuple[float, bytes] | None:
        """Returns the address of a range that was released first, and its release time."""

    def entries(self, scope: str, low: bytes, high: bytes) -> Iterator[tuple[bytes, float]]:
        """Yields the addresses of a range that are not `FREE`, in order, each with its `released_at`."""

    def cursor(self, scope: str, pool: str) -> bytes | None:
        """Returns the address that a pool assigned last in sequence."""

    def move_cursor(self, scope: str, pool: str, ip: bytes) -> None: ...


def resting_since(now: float, cooldown: float) -> float:
    """Returns the time after which a released address still rests, even if the release is in the future.

    Without a cooldown no address rests. No value makes a held address available.
    """
    return now - cooldown if cooldown > 0 else sys.float_info.max


_SHORTEST, _LONGEST = 64, 4096


class Vacancies(NamedTuple):
    """The vacant addresses of a pool, found without listing addresses.

    A released address still rests if its release is after `since`.

    A stretch of a pool has a vacant address if it has fewer rows than addresses. So the search counts one
    stretch after the other, each longer than the last, and bisects the first that is not full. SQLite counts
    ten rows in a microsecond, and an address without a row costs nothing.
    """

    pool: Pool
    holdings: Holdings
    scope: str
    since: float

    def has(self, ip: bytes) -> bool:
        return self.holdings.released_at(self.scope, ip) <= self.since

    def first(self, start: int, stop: int) -> bytes | None:
        """Returns the first vacant address in a stretch of ordinals."""
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


_LEAST_PART = 10


class Resting(NamedTuple):
    """A released address. If every address is held or rests, the longest-resting one may be assigned early.

    An address rests because others may still send to it: connection tracking, neighbour caches, clients that
    have not noticed. After a tenth of the cooldown, this risk is better than a failure.
    """

    released: float
    ip: bytes
    pool: Pool

    def rested(self, now: float) -> float:
        """Returns for how many seconds it has rested. A release in the future counts as one of `now`."""
        return max(0.0, now - self.released)

    def ready_in(self, now: float, cooldown: float) -> float:
        """Returns the seconds until it may be assigned early; zero or less if it may be now."""
        return least_rest(cooldown) - self.rested(now)


def least_rest(cooldown: float) -> float:
    """Returns for how long an address rests when no other is left."""
    return cooldown / _LEAST_PART


def longest_resting(pools: Sequence[Pool], holdings: Holdings, scope: str) -> Resting | None:
    longest: Resting | None = None
    for pool in pools:
        for low, high in pool.spans(0, pool.capacity):
            found = holdings.longest_resting(scope, low, high)
            if found is not None and (longest is None or found[0] < longest.released):
                longest = Resting(*found, pool)
    return longest
