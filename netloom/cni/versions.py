"""Versions of the CNI specification: which exist, how they compare, which verb each allows."""

from __future__ import annotations

from .errors import DecodingFailure

CURRENT = "1.1.0"
ALL: tuple[str, ...] = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", CURRENT)

# A configuration without a version has the first one.
UNDECLARED = "0.1.0"

# The version from which a verb exists; for DEL, from which it carries the cached result.
CHECK_SINCE = "0.4.0"
DEL_RESULT_SINCE = "0.4.0"
GC_SINCE = "1.1.0"
STATUS_SINCE = "1.1.0"

Version = tuple[int, int, int]


def parse(text: str) -> Version:
    """`"1.1"` is `(1, 1, 0)`. One to three numbers; nothing at all means 0.1.0.

    >>> parse("1.1")
    (1, 1, 0)
    >>> parse("")
    (0, 1, 0)
    """
    if not text:
        return (0, 1, 0)
    parts = text.split(".")
    if len(parts) > 3:
        raise DecodingFailure(
            f'invalid CNI version "{text}": too many parts', discreet="invalid CNI version: too many parts"
        )
    numbers = []
    for part, name in zip(parts, ("major", "minor", "micro"), strict=False):
        digits = part[1:] if part[:1] in ("+", "-") else part
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise DecodingFailure(
                f'invalid CNI version "{text}": the {name} part "{part}" is not a number',
                discreet=f"invalid CNI version: the {name} part is not a number",
            )
        numbers.append(int(part))
    numbers += [0] * (3 - len(numbers))
    return numbers[0], numbers[1], numbers[2]


def at_least(version: str, minimum: str) -> bool:
    return parse(version) >= parse(minimum)


def newest(versions: list[str]) -> str | None:
    """Returns the highest of the versions that this library implements, if there is one."""
    known = [version for version in versions if parse(version) <= parse(CURRENT)]
    return max(known, key=parse, default=None)


def starting_from(minimum: str) -> tuple[str, ...]:
    """Returns all versions from one on, for a plugin that declares what it supports."""
    return ALL[ALL.index(minimum) :]
