"""What an agent does beside answering: it looks for what was lost, left or queued, again and again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ...ops.node import heartbeat as life
from ..node import Node
from ..verbs.gc import Collector
from . import queued_dels as intents
from .clashes import look_for_clashes
from .network_keeper import NetworkKeeper
from .node_objects import keep_own_objects
from .reconciler import Drift
from .recovery import finish, forget_rested

log = logging.getLogger(__name__)

# Looking at every namespace's path costs a system call each.
_COLLECT_EVERY = 10
# Firewalls of others: for metrics. Whoever asks for findings has them judged at once.
_FIREWALLS_EVERY = 10
# Looking for addresses that rested for a day costs a look at all that rest.
_FORGET_EVERY = 3600
# Seconds: all pages of the journal are read. Whoever asks how the node is has it done sooner.
_PROVE_EVERY = 60


async def tick(node: Node) -> None:
    """Until it is cancelled. What fails is told of, and does not keep the others from being done."""
    collector, drift, keeper = Collector(node), Drift(node), NetworkKeeper(node)
    number = 0
    while True:
        await asyncio.sleep(node.settings.tick)
        number += 1
        node.ticked = time.monotonic()
        node.look_after_journal()
        life.show(node.settings.socket)
        work: list[Callable[[], Awaitable[object]]] = [
            lambda: intents.replay(node),
            lambda: finish(node),
            node.look_at_host,
            lambda: keep_own_objects(node),
            lambda: look_for_clashes(node),
            lambda: node.prove_journal(_PROVE_EVERY),
            drift.look_after_table,
            drift.look_after_recent,
            drift.sweep,
            keeper.round,
        ]
        if number % _COLLECT_EVERY == 0 or node.settings.grace < _COLLECT_EVERY:
            work.append(collector.round)
        if number % _FIREWALLS_EVERY == 0:
            work.append(node.firewalls.look)
        if number % _COLLECT_EVERY == 0 and node.host.orphans:
            work.append(node.keep_orphans_guarded)
        if number % _FORGET_EVERY == 0:
            work.append(lambda: forget_rested(node))
        for step in work:
            try:
                await step()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("a part of the slow work failed")


async def go_on(what: str, work: Callable[[], Awaitable[None]]) -> None:
    """Whatever happens to it, it is begun again."""
    while True:
        with suppress(OSError):
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s failed; trying again", what)
        await asyncio.sleep(1)
