"""Rows as what they should be: of a damaged file, SQLite hands out whatever its pages have.

Pages of another table, or of another time, are as good as any to SQLite. Nobody who reads is left with a
number where a name was meant: the file is damaged, and that is said.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .causes import Malformed
from .records import Seconds

T = TypeVar("T")


def typed(values: Any, kind: type[T]) -> T:
    """The values, of this type. Raises `Malformed`.

    >>> typed([(1, "eth0")], list[tuple[int, str]])
    [(1, 'eth0')]
    """
    try:
        return msgspec.convert(values, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise Malformed(f"a row is malformed: {error}") from None


def seconds(value: object) -> float:
    """The same, of a time. One that no calendar has was not written by us."""
    found: float = typed(value, Seconds)
    return found
