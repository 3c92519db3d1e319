"""Where in a document its JSON is wrong: by line and column, as an editor counts them, not by byte."""

from __future__ import annotations

import re

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
