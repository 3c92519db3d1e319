"""What the details of an operation say to people and to programs alike.

A line may be all that is left of what it is about: those before it are lost with an agent that was killed,
or dropped from a log that is full. So it says since when the attachment was there, and the first line of an
agent says when the one before it was last alive.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

_MOMENT = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"
_ATTACHED = re.compile(rf"attached since {_MOMENT}(?:; (.*))?", re.DOTALL)
# The second is what agents before wrote: their lines are still in journals.
_LAST_SIGN = re.compile(
    rf"; (?:the previous agent did not shut down cleanly; last heartbeat|"
    rf"the one before it ended without a word, and was last alive at) {_MOMENT}"
)


def with_attached(details: str, since: float) -> str:
    """Comes first, so that nothing cuts it off.

    >>> with_attached("its namespace is gone", 0.25)
    'attached since 1970-01-01T00:00:00.250000Z; its namespace is gone'
    """
    return f"attached since {_written(since)}" + (f"; {details}" if details else "")


def attached_of(details: str) -> tuple[float | None, str]:
    """Since when it was attached, if that is said; and the rest.

    >>> attached_of(with_attached("", 0.25)), attached_of("put back: veth")
    ((0.25, ''), (None, 'put back: veth'))
    """
    found = _ATTACHED.fullmatch(details)
    return (None, details) if found is None else (_read(found[1]), found[2] or "")


def with_last_sign(details: str, alive: float) -> str:
    return f"{details}; the previous agent did not shut down cleanly; last heartbeat {_written(alive)}"


def last_sign_of(details: str) -> float | None:
    found = _LAST_SIGN.search(details)
    return None if found is None else _read(found[1])


def with_moments(details: str, shown: Callable[[float], str]) -> str:
    """For people: with the moment in the form in which they are shown all others."""
    found = _LAST_SIGN.search(details)
    at = None if found is None else _read(found[1])
    if found is None or at is None:
        return details
    return f"{details[: found.start(1)]}{shown(at)}{details[found.end(1) :]}"


def _written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _read(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # somebody else wrote it
        return None
