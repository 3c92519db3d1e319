"""The questions `settle` and `unwritten`: the log of operations goes to disk now, and what does not.

It is written a moment after an operation was answered, since nobody waits for it: except whoever reads it
next, and looks for what has just happened. While the disk takes nothing, the agent has it in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ..node import Node


async def settle(node: Node, _: bytes) -> bytes:
    await node.journal.flush()
    return b"{}"


async def unwritten(node: Node, _: bytes) -> bytes:
    return msgspec.json.encode(node.journal.unwritten())
