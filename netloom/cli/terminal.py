"""The terminal that standard output goes to, if it goes to one."""

from __future__ import annotations

import os
import sys


def terminal_width() -> int | None:
    """In columns; None where nobody says how wide it is, as off a terminal: there, nothing has to fit."""
    if sys.stdout is None:
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):  # which is also what a stream without a descriptor raises
        return None
