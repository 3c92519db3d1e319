"""Keeps the conditions of addresses that a container shares with the host or a machine beside it."""

from __future__ import annotations

import logging

from ...journal import JournalError
from ...ops.health.clashes import clashes
from ..conditions import Condition
from ..node import Node

log = logging.getLogger(__name__)

_KEY = "clash "


async def look_for_clashes(node: Node) -> None:
    """Called at every tick, after the host was looked at."""
    host = node.host
    try:
        found = await node.journal.ask(lambda ledger: clashes(ledger, host))
    except JournalError:
        return
    now = {_KEY + it.subject: Condition(it) for it in found}
    for key in [it for it in node.conditions if it.startswith(_KEY) and it not in now]:
        del node.conditions[key]
    for key, condition in now.items():
        if key not in node.conditions:
            log.warning("%s", condition.finding.text)
        node.conditions[key] = condition
