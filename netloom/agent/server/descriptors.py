"""How many descriptors may go to whoever connects: most of them are for the agent's work.

Of more than 1024, the others are of no use: libnftables waits with select(2), which goes no further.
"""

from __future__ import annotations

import resource

_OF_USE = 1024


def share(part: int) -> int:
    """One of so many parts of them; at least one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max((_OF_USE if soft == resource.RLIM_INFINITY else min(soft, _OF_USE)) // part, 1)
