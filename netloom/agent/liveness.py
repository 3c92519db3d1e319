"""Whether the agent makes progress: its loop, the journal's thread, the dataplane's.

An agent that is busy is alive; one that hangs, in a disk or in the kernel, does not get better by itself, and
whoever watches over it may start it anew: what is attached works on meanwhile.
"""

from __future__ import annotations

import asyncio
import time

from ..api.findings import Finding
from ..journal import JournalError
from ..kernel import KernelError, Plan
from .node import Node

# How long journal and dataplane may take for something that costs nothing.
PATIENCE = 5.0
# How long one round of the slow work may take: it waits for requests that may each take half a minute.
_ROUND = 180.0
_NEXT = "restart the agent: containers keep their networks; `dmesg` may show what hangs in the kernel"


async def stuck(node: Node, patience: float = PATIENCE) -> list[Finding]:
    """What makes no progress; nothing, if all of it does."""
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
    except JournalError:  # it is being closed, and says so
        pass
    return True


async def _dataplane(node: Node, patience: float) -> bool:
    """In a long queue, our turn may not come in time; then it is enough that others' does."""
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
