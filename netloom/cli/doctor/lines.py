"""Lines of files that others write as settings: whatever is in a file's place, nobody waits for it."""

from __future__ import annotations

from ...cni.files import read_document

_LARGEST = 1 << 20
_COMMENTS = "#;"


def lines(path: str) -> list[str]:
    """Without comments and what is empty; none of what cannot be read, or is no file."""
    try:
        text = read_document(path, limit=_LARGEST).decode(errors="replace")
    except OSError:
        return []
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if line and line[0] not in _COMMENTS]
