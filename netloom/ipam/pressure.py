"""When every address is held or rests: the one that rested longest may go early, but never at once.

A released address rests because the world still sends to it: connection tracking, neighbours' caches,
clients that have not noticed. A tenth of the rest is where that risk is taken rather than fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .holdings import Holdings
from .pool import Pool

_LEAST_PART = 10


class Resting(NamedTuple):
    released: float
    ip: bytes
    pool: Pool

    def rested(self, now: float) -> float:
        """Seconds. A release in the future counts as one of this moment."""
        return max(0.0, now - self.released)

    def ready_in(self, now: float, cooldown: float) -> float:
        """Seconds until it may go early; none or fewer if it may already."""
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
