"""A container's ID as a table shows it."""

from __future__ import annotations

import re

# Of an ID, as other tools show it; and how long those are that runtimes make.
_SHOWN = 12
_MADE = re.compile(r"[0-9a-f]{32,}")


def short_id(container_id: str) -> str:
    """The beginning of one that a runtime made, which tells it from others; what somebody chose stays whole.

    >>> short_id("3f2a9c" * 11), short_id("netloom-kept-7-client")
    ('3f2a9c3f2a9c', 'netloom-kept-7-client')
    """
    return container_id[:_SHOWN] if _MADE.fullmatch(container_id) else container_id
