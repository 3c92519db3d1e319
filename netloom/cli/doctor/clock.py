"""Whether somebody has set the clock: the journal has every attachment's time of day, and time since boot.

The difference of the two is when the machine was booted, and the same for all, unless the clock was set in
between. Nothing that netloom does depends on the time of day; what it has written down may mislead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

from ...api.findings import Finding
from ...journal import boottime
from ...ops.node.presence import boot_id
from ..views import age
from .ground import Ground

# Clocks are disciplined by less than this.
_JUMP = 60.0


def look(ground: Ground) -> Iterator[Finding]:
    if ground.ledger is None:
        return
    now = time.time()
    boot = boot_id()
    seen = [
        (row.created, row.created_at - row.created, row.created_at)
        for row in ground.attachments
        if row.boot_id == boot
    ]
    seen = [*sorted(seen), (boottime(), now - boottime(), now)]
    for (_, before, written), (_, after, _) in pairwise(seen):
        if abs(after - before) > _JUMP:
            yield _jumped(after - before, f"after {_shown(written)}, as the clock was then")
    latest = ground.ledger.operations(1)
    if latest and latest[0].started > now + _JUMP:
        yield _jumped(
            now - latest[0].started,
            f"the journal's last entry is of {_shown(latest[0].started)}, which is still to come",
        )


def _jumped(seconds: float, when: str) -> Finding:
    direction = "forward" if seconds > 0 else "back"
    return Finding(
        code="clock-jumped",
        severity="warning",
        subject="clock",
        text=f"the clock was set {direction} by {age(abs(seconds))}: {when}",
        next="let NTP keep the clock (`timedatectl set-ntp true`); when reading times of before that in "
        "`netloom explain`, mind by how much it was set",
    )


def _shown(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
