"""An agent's sign of life: one that is killed writes no last line.

The time at which the agent's socket was changed has it. It is in memory, as /run is, costs a system call a
second, and outlives the process. It is of whole milliseconds: hardly any is that the kernel gives to a socket
which somebody has just made, who may be systemd, and no agent.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

_MILLISECOND = 1_000_000


def show(socket: str) -> None:
    """The agent that serves there is alive now."""
    now = time.time_ns() // _MILLISECOND * _MILLISECOND
    with suppress(OSError):  # it is gone, and will be made anew
        os.utime(socket, ns=(now, now))


def last_sign(socket: str) -> float | None:
    """When an agent was last alive there; None if that is not known."""
    try:
        changed = os.stat(socket).st_mtime_ns
    except OSError:
        return None
    return changed / 1e9 if changed % _MILLISECOND == 0 and changed <= time.time_ns() else None
