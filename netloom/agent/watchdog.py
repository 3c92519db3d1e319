"""Tells the service manager that the agent is alive, as long as it is of use.

An event loop that turns is not enough: an agent whose journal hangs in a disk, or whose dataplane hangs in
the kernel, answers nobody. So both are asked something that costs nothing, and only their answers are
passed on.
"""

from __future__ import annotations

import asyncio
import logging

from ..journal import JournalError, Ledger
from ..kernel import KernelError, Plan
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
        try:
            async with asyncio.timeout(pause):
                counts = await node.journal.ask(Ledger.count)
                await node.dataplane.check(Plan(()), timeout=manager.watchdog)
        except (TimeoutError, JournalError, KernelError) as error:
            log.error("journal or dataplane gave no sign of life for %.1f s %s", pause, error)
        else:
            manager.tell("WATCHDOG=1")
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
