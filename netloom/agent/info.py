"""What an agent says of itself."""

from __future__ import annotations

import os

import msgspec

from .. import __version__
from ..journal import Ledger
from . import intents
from .node import Node


async def info(node: Node) -> bytes:
    counts = await node.journal.ask(Ledger.count)
    return msgspec.json.encode(
        {
            "version": __version__,
            "process": os.getpid(),
            "state_dir": node.settings.state_dir,
            "socket": node.settings.socket,
            "boot_id": node.boot_id,
            "mtu": node.mtu,
            "started": node.started,
            "attachments": counts,
            "intents": len(intents.waiting(node.settings.intents)),
            "under_way": node.dataplane.under_way,
            "troubles": [*node.troubles.values(), *([node.journal.trouble] if node.journal.trouble else [])],
            "counters": dict(sorted(node.counters.items())),
        }
    )
