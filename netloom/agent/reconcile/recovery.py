"""What an agent does before its first ADD: finishes or undoes what the one before it did not.

After it, journal and kernel agree: nothing is pending or deleting, what another boot held is given back,
and every DEL that was promised while nobody was there has happened.
"""

from __future__ import annotations

import logging
import secrets

from msgspec import Struct

from ...failpoints import reach
from ...journal import Ledger, boottime
from ...networks.config import LONGEST_COOLDOWN
from ...ops.node.ownership import IDENTITY, NodeOfAnother, another_at, is_as_marked
from ..node import Node
from ..server.subject import about
from ..verbs.continuation import relay
from ..verbs.delete import detaching
from . import queued_dels as intents
from .forwarding import keep_router_advertisements
from .node_objects import keep_own_objects

log = logging.getLogger(__name__)


class Recovered(Struct, frozen=True):
    """What there was to do."""

    of_another_boot: int
    replayed: int
    finished: int

    def __str__(self) -> str:
        return (
            f"{self.of_another_boot} attachments of another boot released, "
            f"{self.finished} unfinished taken away, queued DELs done: {self.replayed}"
        )


async def recover(node: Node) -> Recovered:
    reach("recovery.locked")
    kept = await _own_identity(node)
    node.identity = kept or secrets.token_hex(8)
    boot_id = node.boot_id
    old = await node.journal.change(lambda ledger: _begin(ledger, boot_id))
    if old:
        log.info("%d attachments were of another boot; their addresses rest", old)
    reach("recovery.boot")
    await prepare(node)
    reach("recovery.node")
    if kept is None:
        # After the table: an agent that ends in between leaves a mark with this directory, and the next one
        # with it gives the journal another identity.
        await node.journal.change(lambda ledger: ledger.set_fact(IDENTITY, node.identity))
    replayed = await intents.replay(node)
    finished = await finish(node)
    reach("recovery.done")
    return Recovered(old, replayed, finished)


async def _own_identity(node: Node) -> str | None:
    """The journal's identity; None if it needs a new one. Raises `NodeOfAnother` before anything is changed.

    A journal that was moved or copied from another state directory gets a new one. Otherwise the old
    directory could take the node back with a journal that is out of date.
    """
    state_dir = node.settings.state_dir
    identity = await node.journal.ask(lambda ledger: ledger.fact(IDENTITY))
    another = await node.look(lambda host: another_at(host, state_dir, identity))
    if another is not None:
        raise NodeOfAnother(another)
    return identity if await node.look(lambda host: is_as_marked(host, state_dir, identity)) else None


def _begin(ledger: Ledger, boot_id: str) -> int:
    """How many attachments were of another boot."""
    now = boottime()
    old = ledger.begin_boot(boot_id, now)
    ledger.forget_rested(now - LONGEST_COOLDOWN)
    return old


async def forget_rested(node: Node) -> None:
    """Addresses whose rest is over, for whatever network: of a large pool, there would be ever more."""
    over = boottime() - LONGEST_COOLDOWN
    await node.journal.change(lambda ledger: ledger.forget_rested(over))


async def prepare(node: Node) -> None:
    """The node's own part: forwarding, and the table that says who may send what."""
    await node.look_at_host()
    if node.host.ipv6:
        told = await node.look(keep_router_advertisements)
        if told:
            log.info("still listening to routers while forwarding: %s", ", ".join(told))
    await keep_own_objects(node)
    await node.recall_orphans()
    if not await node.has_table():
        # The journal does not count elements of orphans. They are read before they are replaced.
        await node.learn_orphans()
        reach("recovery.orphans")
        await node.lay_down()
    elif node.orphan_table:
        await node.keep_orphans_guarded()
    node.looks_for_strays = max(node.looks_for_strays, 1)


async def finish(node: Node) -> int:
    """Takes away what is pending or deleting and has nobody at work on it. How many."""
    done = 0
    rows = await node.journal.ask(lambda ledger: list(ledger.attachments("pending", "deleting")))
    for row in rows:
        if node.turns.is_busy(row.key):
            continue
        async with node.turns.of(row.key):
            current = await node.journal.ask(lambda ledger, number=row.id: ledger.by_id(number))  # type: ignore[misc]
            if current is None or current.state == "committed":
                continue
            reach("recovery.row")
            try:
                await relay(detaching(node, current))
            except Exception as error:
                log.warning("%s is still %s: %s", row.key, row.state, error, extra=about(row.key))
                continue
            reach("recovery.row-removed")
            done += 1
            node.tell("UNDO", f"it was {row.state}, and is gone", current)
            log.info("%s was %s, and is gone", row.key, row.state, extra=about(row.key))
    if done:
        reach("recovery.rows")
    return done
