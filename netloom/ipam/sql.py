"""Holdings in the journal's tables `address` and `cursor`.

A row of `address` without `released` is held, one with it rests. The key orders addresses as bytes, so
those of the two families lie between each other; every range asks for the length as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ..cni import AttachmentKey
from ..journal.rows import seconds, typed
from .holdings import FREE, HELD

_RANGE = "FROM address WHERE scope = ? AND ip BETWEEN ? AND ? AND length(ip) = ?"

_RELEASED = "SELECT released FROM address WHERE scope = ? AND ip = ?"
_HOLDER = (
    "SELECT network, container_id, ifname FROM address JOIN attachment ON attachment.id = address.attachment "
    "WHERE scope = ? AND ip = ?"
)
_TALLY = f"SELECT count(*) - count(released), count(released) {_RANGE} AND (released IS NULL OR released > ?)"
_LONGEST = f"SELECT released, ip {_RANGE} AND released IS NOT NULL ORDER BY released, ip"
_ENTRIES = f"SELECT ip, released {_RANGE} ORDER BY ip"
_CURSOR = "SELECT ip FROM cursor WHERE scope = ? AND pool = ?"
_MOVE = (
    "INSERT INTO cursor (scope, pool, ip) VALUES (?, ?, ?) "
    "ON CONFLICT (scope, pool) DO UPDATE SET ip = excluded.ip"
)


class SqlHoldings:
    """Reads and moves cursors within whatever transaction the connection is in.

    `others` are addresses that somebody holds of whom no table knows, such as the host itself; `orphaned` are
    those of them that links without an attachment have.
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
        rows = self._execute(_LONGEST, (scope, low, high, len(low)))
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
