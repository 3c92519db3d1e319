"""Holdings in the journal's tables `address` and `cursor`.

A row of `address` without `released` is held, one with it rests. The key orders addresses as bytes, so
those of the two families lie between each other; every range asks for the length as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from .holdings import FREE, HELD

_RANGE = "FROM address WHERE scope = ? AND ip BETWEEN ? AND ? AND length(ip) = ?"

_RELEASED = "SELECT released FROM address WHERE scope = ? AND ip = ?"
_TALLY = f"SELECT count(*) - count(released), count(released) {_RANGE} AND (released IS NULL OR released > ?)"
_LONGEST = f"SELECT released, ip {_RANGE} AND released IS NOT NULL ORDER BY released, ip LIMIT 1"
_ENTRIES = f"SELECT ip, released {_RANGE} ORDER BY ip"
_CURSOR = "SELECT ip FROM cursor WHERE scope = ? AND pool = ?"
_MOVE = (
    "INSERT INTO cursor (scope, pool, ip) VALUES (?, ?, ?) "
    "ON CONFLICT (scope, pool) DO UPDATE SET ip = excluded.ip"
)


class SqlHoldings:
    """Reads and moves cursors within whatever transaction the connection is in.

    `others` are addresses that somebody holds of whom no table knows, such as the host itself.
    """

    def __init__(self, connection: sqlite3.Connection, others: frozenset[bytes] = frozenset()) -> None:
        self._execute = connection.execute
        self._others = others

    def released_at(self, scope: str, ip: bytes) -> float:
        if ip in self._others:
            return HELD
        row = self._execute(_RELEASED, (scope, ip)).fetchone()
        if row is None:
            return FREE
        return HELD if row[0] is None else float(row[0])

    def tally(self, scope: str, low: bytes, high: bytes, since: float) -> tuple[int, int]:
        held, resting = self._execute(_TALLY, (scope, low, high, len(low), since)).fetchone()
        return held + len(self._others_in(scope, low, high)), resting

    def longest_resting(self, scope: str, low: bytes, high: bytes) -> tuple[float, bytes] | None:
        row = self._execute(_LONGEST, (scope, low, high, len(low))).fetchone()
        return None if row is None else (row[0], row[1])

    def entries(self, scope: str, low: bytes, high: bytes) -> Iterator[tuple[bytes, float]]:
        others = self._others_in(scope, low, high)
        for ip, released in self._execute(_ENTRIES, (scope, low, high, len(low))):
            while others and others[0] < ip:
                yield others.pop(0), HELD
            yield ip, HELD if released is None else released
        for ip in others:
            yield ip, HELD

    def _others_in(self, scope: str, low: bytes, high: bytes) -> list[bytes]:
        """Of a range, in order, those that no row tells of."""
        if not self._others:
            return []
        found = sorted(ip for ip in self._others if len(ip) == len(low) and low <= ip <= high)
        return [ip for ip in found if self._execute(_RELEASED, (scope, ip)).fetchone() is None]

    def cursor(self, scope: str, pool: str) -> bytes | None:
        row = self._execute(_CURSOR, (scope, pool)).fetchone()
        return None if row is None else row[0]

    def move_cursor(self, scope: str, pool: str, ip: bytes) -> None:
        self._execute(_MOVE, (scope, pool, ip))
