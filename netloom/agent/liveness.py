"""Checks that the event loop, the journal's thread and the dataplane make progress.

A busy agent is alive. One that hangs, in a disk or in the kernel, does not recover by itself; a service
manager or a liveness probe may restart it. Attached containers keep working meanwhile.
"""

from __future__ import annotations

import asyncio
import time

from ..api.findings import Finding
from ..journal import JournalError
from ..kernel import KernelError, Plan
from .node import Node

# How long the journal and the dataplane may take for an empty request, in seconds.
PATIENCE = 5.0
# How long one round of the periodic work may take: it waits for requests that may each take half a minute.
_ROUND = 180.0
_NEXT = "restart the agent: containers keep their networks; `dmesg` may show what hangs in the kernel"


async def stuck(node: Node, patience: float = PATIENCE) -> list[Finding]:
    """Returns a finding for each part that makes no progress."""
    journal, dataplane = await asyncio.gather(_journal(node, patience), _dataplane(node, patience))
    found = []
    if not journal:
        found.append(stuck_finding("journal", f"the journal's thread has not answered for {patience:g} s"))
    if not dataplane:
        found.append(
            stuck_finding("dataplane", f"the dataplane has not finished anything for {patience:g} s")
        )
    waited = time.monotonic() - node.ticked - node.settings.tick
    if waited > _ROUND:
        found.append(
            stuck_finding("loop", f"the agent's periodic work has been stuck in one round for {waited:.0f} s")
        )
    return found


def stuck_finding(part: str, text: str) -> Finding:
    return Finding(code="agent-stuck", text=text, next=_NEXT, subject=part)


async def _journal(node: Node, patience: float) -> bool:
    try:
        async with asyncio.timeout(patience):
            await node.journal.ask(lambda _: None)
    except TimeoutError:
        return False
    except JournalError:  # it answered: it is being closed
        pass
    return True


async def _dataplane(node: Node, patience: float) -> bool:
    """In a long queue the probe may not be served in time; then any finished request counts as progress."""
    before = node.dataplane.ended
    try:
        async with asyncio.timeout(patience):
            await node.dataplane.check(Plan(()), timeout=patience * 2)
        return True
    except TimeoutError:
        pass
    except KernelError:  # the queue is full
        await asyncio.sleep(patience)
    return node.dataplane.ended != before
