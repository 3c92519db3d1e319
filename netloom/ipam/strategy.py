"""How a pool chooses among its vacant addresses.

A strategy names one address, or None if the pool has none that is vacant; it changes nothing. Each tries
a few addresses by name first, which nearly always does, and searches only if those are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import randrange

from .embedding import SLOTS, embedded
from .pool import Strategy
from .vacancy import Vacancies

_TRIES = 4


def sequential(vacancies: Vacancies, _identity: tuple[str, ...]) -> bytes | None:
    """The next after the one that was given last, and round again: each comes back as late as it can."""
    pool = vacancies.pool
    last = vacancies.holdings.cursor(vacancies.scope, pool.cidr)
    start = 0 if last is None else pool.ordinal_after(last)
    for ordinal in range(start, min(start + _TRIES, pool.capacity)):
        if vacancies.has(ip := pool.at(ordinal)):
            return ip
    return _from(vacancies, start)


def random(vacancies: Vacancies, _identity: tuple[str, ...]) -> bytes | None:
    pool = vacancies.pool
    for _ in range(_TRIES):
        if vacancies.has(ip := pool.at(randrange(pool.capacity))):
            return ip
    return _from(vacancies, randrange(pool.capacity))


def by_identity(vacancies: Vacancies, identity: tuple[str, ...]) -> bytes | None:
    """The same host part for the same identity, but for the slot; any address if all slots are taken."""
    pool = vacancies.pool
    host = embedded(identity, pool.host_bits)
    if host is not None:
        turn = randrange(SLOTS)
        for slot in range(SLOTS):
            ip = (pool.network | host | (slot ^ turn)).to_bytes(pool.width, "big")
            if ip in pool and vacancies.has(ip):
                return ip
    return random(vacancies, identity)


def _from(vacancies: Vacancies, start: int) -> bytes | None:
    return vacancies.first(start, vacancies.pool.capacity) or vacancies.first(0, start)


STRATEGIES: Mapping[Strategy, Callable[[Vacancies, tuple[str, ...]], bytes | None]] = {
    "sequential": sequential,
    "random": random,
    "embedded": by_identity,
}
