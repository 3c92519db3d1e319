"""Times as people write and read them: `02:13`, `2026-11-16 02:13`, with a zone, or `10m ago`; and durations.

Seconds since 1970, as in netloom's JSON, are also accepted: `@1700000000.5`, or without the sign. A time
without a zone is in the zone of this machine, as is every time that a command shows.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_PART.pattern}\s*)+")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
# A number with fewer digits could be a clock time or a date.
_SECONDS = re.compile(r"\d{9,11}(?:\.\d*)?", re.ASCII)


def time_at(text: str, now: float) -> float | None:
    """Parses a time; None if it is invalid. A clock time alone is the last such time before `now`.

    >>> time_at("1h30m ago", 10000.0), time_at("@5000.5", 10000.0), time_at("1700000000.5", 0.0)
    (4600.0, 5000.5, 1700000000.5)
    """
    words = text.strip()
    if words.lower() == "now":
        return now
    if words.endswith("ago"):
        duration = duration_of(words.removesuffix("ago"))
        return None if duration is None else now - duration
    if words.startswith("@"):
        return _number(words[1:])
    if _SECONDS.fullmatch(words):
        return _number(words)
    clock = _CLOCK.fullmatch(words)
    return _on_the_calendar(words) if clock is None else _latest(clock, now)


def duration_of(text: str) -> float | None:
    """Parses a duration into seconds; None if it is invalid.

    >>> duration_of("1h 30m"), duration_of("500ms"), duration_of("ten")
    (5400.0, 0.5, None)
    """
    words = text.strip().lower()
    if not _DURATION.fullmatch(words):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(words))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e11 else None


def _latest(clock: re.Match[str], now: float) -> float | None:
    hour, minute, second = (int(clock[number] or 0) for number in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((clock[4] or "0").ljust(6, "0"))
    today = datetime.fromtimestamp(now).replace(hour=hour, minute=minute, second=second, microsecond=fraction)
    # One calendar day, not 86,400 seconds: a day may have 23 hours.
    meant = today if today.timestamp() <= now else today - timedelta(days=1)
    return meant.timestamp()


def _on_the_calendar(words: str) -> float | None:
    try:
        return datetime.fromisoformat(words).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def shown(at: float, *, precise: bool = False) -> str:
    """Formats a time in the zone of this machine."""
    whole = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return f"{whole}.{int(at * 1000) % 1000:03}" if precise else whole
