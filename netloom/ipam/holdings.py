"""Who holds which address of a pool: the rows and their SQL."""

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
    """Reads and moves cursors within whatever transaction the connection is in.

    `others` are addresses in use that no table knows of, such as the host's own; `orphaned` are those of them
    that links without an attachment have.
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
        """Of a range, in order."""
        return sorted(ip for ip in self._others if len(ip) == len(low) and low <= ip <= high)

    def cursor(self, scope: str, pool: str) -> bytes | None:
        row = self._execute(_CURSOR, (scope, pool)).fetchone()
        return None if row is None else typed(row[0], bytes)

    def move_cursor(self, scope: str, pool: str, ip: bytes) -> None:
        self._execute(_MOVE, (scope, pool, ip))


# When an address was released: for one that is held, and for one that was never given.
HELD = math.inf
FREE = -math.inf


class Holdings(Protocol):
    """The addresses of every scope, inside of one transaction.

    A moment is a number of seconds since boot. An address that was released rests; whether for long
    enough is the caller's business. A range has both its ends, which are of one family, and only
    addresses of that family are in it.
    """

    def released_at(self, scope: str, ip: bytes) -> float:
        """`HELD`, `FREE`, or the moment of its release."""

    def holder(self, scope: str, ip: bytes) -> str:
        """Who has an address that is `HELD`, for people: an attachment, or "the host itself"."""

    def tally(self, scope: str, low: bytes, high: bytes, since: float) -> tuple[int, int]:
        """How many of a range are held, and how many were released after a moment."""

    def orphaned(self, scope: str, low: bytes, high: bytes) -> int:
        """How many of those of a range that are held are so by links without an attachment."""

    def longest_resting(self, scope: str, low: bytes, high: bytes) -> tuple[float, bytes] | None:
        """The released address of a range that was released first, and when."""

    def entries(self, scope: str, low: bytes, high: bytes) -> Iterator[tuple[bytes, float]]:
        """Those of a range that are not `FREE`, in order, each with what `released_at` says."""

    def cursor(self, scope: str, pool: str) -> bytes | None:
        """The address that a pool gave last in sequence."""

    def move_cursor(self, scope: str, pool: str, ip: bytes) -> None: ...


def resting_since(now: float, cooldown: float) -> float:
    """An address rests if it was released after this moment, however far in the future that is.

    Without a cooldown nothing rests; and nothing at all makes a held address available.
    """
    return now - cooldown if cooldown > 0 else sys.float_info.max


_SHORTEST, _LONGEST = 64, 4096


class Vacancies(NamedTuple):
    """Which addresses of a pool can be had now, found without listing any.

    `since` is the moment after which a released address still rests.

    Whether a stretch of a pool has a vacant address is a matter of counting: fewer rows than addresses. So
    the first one is found by counting one stretch after the other, longer ones the farther it goes, and
    halving the first that is not full. SQLite counts ten rows in a microsecond, and an address without a row
    costs nothing.
    """

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


_LEAST_PART = 10


class Resting(NamedTuple):
    """A released address. When every address is held or rests, the one that rested longest may go early.

    It rests because others still send to it: connection tracking, neighbours' caches, clients that have not
    noticed. After a tenth of the rest, that risk is better than to fail.
    """

    released: float
    ip: bytes
    pool: Pool

    def rested(self, now: float) -> float:
        """Seconds. A release in the future counts as one of this moment."""
        return max(0.0, now - self.released)

    def ready_in(self, now: float, cooldown: float) -> float:
        """Seconds until it may go early; zero or less if it may already."""
        return least_rest(cooldown) - self.rested(now)


def least_rest(cooldown: float) -> float:
    """For how long an address rests when there is no other."""
    return cooldown / _LEAST_PART


def longest_resting(pools: Sequence[Pool], holdings: Holdings, scope: str) -> Resting | None:
    longest: Resting | None = None
    for pool in pools:
        for low, high in pool.spans(0, pool.capacity):
            found = holdings.longest_resting(scope, low, high)
            if found is not None and (longest is None or found[0] < longest.released):
                longest = Resting(*found, pool)
    return longest
