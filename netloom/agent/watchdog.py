"""Tells the service manager that the agent is alive, as long as it is of use.

An event loop that turns is not enough: an agent whose journal hangs in a disk, or whose dataplane hangs in
the kernel, answers nobody. One that is busy does. Both are told apart as for `/livez`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from ..journal import JournalError, Ledger
from .liveness import stuck
from .node import Node
from .systemd import Manager

log = logging.getLogger(__name__)

# In the time after which the manager takes us for dead, so many signs of life.
_SIGNS = 3


async def watch(node: Node, manager: Manager) -> None:
    """Until it is cancelled; at once, if nobody wants to know."""
    if manager.watchdog is None:
        return
    pause = manager.watchdog / _SIGNS
    said = ""
    while True:
        found = await stuck(node, pause)
        if found:
            log.error("no sign of life to the service manager: %s", "; ".join(it.text for it in found))
        else:
            manager.tell("WATCHDOG=1")
            with suppress(JournalError):  # of which `status` tells more
                counts = await node.journal.ask(Ledger.count)
                status = _status(node, sum(counts.values()))
                if status != said:
                    manager.tell(f"STATUS={status}")
                said = status
        await asyncio.sleep(pause)


def _status(node: Node, attachments: int) -> str:
    """A line for `systemctl status`."""
    reasons = [*node.troubles.values(), *([node.journal.trouble] if node.journal.trouble else [])]
    serving = f"serving {attachments} attachment{'' if attachments == 1 else 's'}"
    return f"{serving}; nothing can be attached: {'; '.join(reasons)}" if reasons else serving
