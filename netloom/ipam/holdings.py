"""What must be known of addresses to choose one: the questions that the journal answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Protocol

# When an address was released, of one that is held and of one that never was.
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
        """Whose an address is that is `HELD`, for people: an attachment, or "the host itself"."""

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
