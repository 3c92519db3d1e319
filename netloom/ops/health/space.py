"""Whether the disk of the journal has room."""

from __future__ import annotations

import os

# Less free space than this, and the journal is about to be unwritable.
_SPACE = 1 << 20


def lack_of_space(state_dir: str) -> str:
    try:
        space = os.statvfs(state_dir)
    except OSError:  # whoever opens something there tells more
        return ""
    return f"the disk of {state_dir} is full" if space.f_bavail * space.f_frsize < _SPACE else ""
