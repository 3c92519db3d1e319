"""What msgspec says of a document, as values. It has nothing but sentences, and they are read here alone.

Where JSON is wrong is told by line and column, as an editor counts them, not by byte.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_BYTE = re.compile(r" \(byte (\d+)\)$")
_TRUNCATED = "Input data was truncated"
# Of what is left behind a document, msgspec names the second byte.
_TRAILING = "trailing characters"


def placed(said: object, data: bytes) -> str:
    """What msgspec says of a document, with the place in it.

    >>> placed("JSON is malformed: invalid character (byte 9)", b'{\\n  "a": x}')
    'JSON is malformed: invalid character (line 2, column 8)'
    >>> placed("Input data was truncated", b'{\\n')
    'it ends too early (line 2, column 1)'
    """
    text = str(said)
    if text == _TRUNCATED:
        return f"it ends too early ({_spot(data, len(data))})"
    found = _BYTE.search(text)
    if found is None:
        return text
    offset = int(found[1]) - (1 if _TRAILING in text else 0)
    return f"{text[: found.start()]} ({_spot(data, offset)})"


def _spot(data: bytes, offset: int) -> str:
    before = data[:offset]
    line = before.rpartition(b"\n")[2].decode("utf-8", "replace")
    number = before.count(b"\n") + 1
    return f"line {number}, column {len(line) + 1}"


class Complaint(NamedTuple):
    """What is wrong with a value at a place such as `pools[0].cidr`. A document itself has no place.

    `missing` is the key that it lacks, `unknown` one that it may not have.
    """

    place: str
    missing: str = ""
    unknown: str = ""


def complaint(said: object) -> Complaint:
    """
    >>> complaint("Expected `int | null`, got `str` - at `$.pools[0].cidr`")
    Complaint(place='pools[0].cidr', missing='', unknown='')
    >>> complaint("Object missing required field `cidr` - at `$.pools[0]`")
    Complaint(place='pools[0]', missing='cidr', unknown='')
    """
    about, _, place = str(said).rpartition(" - at ")
    missing, unknown = _MISSING.match(about), _UNKNOWN.match(about)
    return Complaint(
        place.strip("`").removeprefix("$").removeprefix(".").removesuffix("[...]"),  # of any key of an object
        missing[1] if missing else "",
        unknown[1] if unknown else "",
    )
