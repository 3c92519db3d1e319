"""Recovery before the first ADD: finishes or undoes what the previous agent left unfinished.

Afterwards, journal and kernel agree: no attachment is pending or deleting, attachments of another boot are
released, and queued DELs are done.
"""

from __future__ import annotations

import logging
import secrets

from msgspec import Struct

from ...failpoints import failpoint
from ...journal import Ledger, boottime
from ...networks.config import LONGEST_COOLDOWN
from ...ops.node.table_contents import IDENTITY, NodeOfAnother, another_at, is_as_marked
from ..host_view import ask_kernel
from ..node import Node
from ..server.caller import about
from ..verbs.continuation import run_continuation
from ..verbs.delete import detaching
from . import queued_dels
from .node_objects import keep_own_objects, keep_router_advertisements

log = logging.getLogger(__name__)


class Recovered(Struct, frozen=True):
    """What recovery did."""

    of_another_boot: int
    replayed: int
    finished: int

    def __str__(self) -> str:
        return (
            f"attachments of another boot released: {self.of_another_boot}, "
            f"unfinished ones removed: {self.finished}, DELs replayed: {self.replayed}"
        )


async def recover(node: Node) -> Recovered:
    failpoint("recovery.locked")
    kept = await _own_identity(node)
    identity = kept or secrets.token_hex(8)
    node.table.own(identity)
    boot_id = node.boot_id
    old = await node.journal.change(lambda ledger: _begin(ledger, boot_id))
    if old:
        log.info("attachments of another boot released: %d; their addresses are in cooldown", old)
    failpoint("recovery.boot")
    await prepare(node)
    failpoint("recovery.node")
    if kept is None:
        # After the table was marked: if the agent ends in between, the mark has this directory, and the next
        # agent there gives the journal another identity.
        await node.journal.change(lambda ledger: ledger.set_fact(IDENTITY, identity))
    replayed = await queued_dels.replay(node)
    finished = await finish(node)
    failpoint("recovery.done")
    return Recovered(old, replayed, finished)


async def _own_identity(node: Node) -> str | None:
    """Returns the journal's identity; None if it needs a new one. Changes nothing. Raises `NodeOfAnother`.

    A journal that was moved or copied from another state directory gets a new one. Otherwise an agent of the
    old directory could take over the node with an outdated journal.
    """
    state_dir = node.settings.state_dir
    identity = await node.journal.ask(lambda ledger: ledger.fact(IDENTITY))
    another = await ask_kernel(lambda host: another_at(host, state_dir, identity))
    if another is not None:
        raise NodeOfAnother(another)
    return identity if await ask_kernel(lambda host: is_as_marked(host, state_dir, identity)) else None


def _begin(ledger: Ledger, boot_id: str) -> int:
    """Releases attachments of another boot. Returns how many there were."""
    now = boottime()
    old = ledger.begin_boot(boot_id, now)
    ledger.forget_rested(now - LONGEST_COOLDOWN)
    return old


async def forget_rested(node: Node) -> None:
    """Deletes cooldown records that have ended for every network; in a large pool they would accumulate."""
    over = boottime() - LONGEST_COOLDOWN
    await node.journal.change(lambda ledger: ledger.forget_rested(over))


async def prepare(node: Node) -> None:
    """Prepares the node: forwarding, other own objects, and the nft table."""
    await node.host_view.refresh()
    if node.host.ipv6:
        changed = await ask_kernel(keep_router_advertisements)
        if changed:
            log.info("still accepting router advertisements while forwarding: %s", ", ".join(changed))
    await keep_own_objects(node)
    await node.orphans.recall()
    if not await node.table.is_complete():
        # The journal does not count elements of orphans, so read them before the table is replaced.
        await node.orphans.refresh()
        failpoint("recovery.orphans")
        await node.table.lay_down()
    elif node.orphans.contents:
        await node.orphans.keep_guarded()
    node.table.schedule_stray_rounds(1)


async def finish(node: Node) -> int:
    """Removes pending and deleting attachments without an operation in progress. Returns how many."""
    done = 0
    rows = await node.journal.ask(lambda ledger: list(ledger.attachments("pending", "deleting")))
    for row in rows:
        if node.locks.is_busy(row.key):
            continue
        async with node.locks.of(row.key):
            current = await node.journal.ask(lambda ledger, number=row.id: ledger.by_id(number))  # type: ignore[misc]
            if current is None or current.state == "committed":
                continue
            failpoint("recovery.row")
            try:
                await run_continuation(detaching(node, current))
            except Exception as error:
                log.warning("%s is still %s: %s", row.key, row.state, error, extra=about(row.key))
                continue
            failpoint("recovery.row-removed")
            done += 1
            node.events.record("UNDO", f"it was still {row.state}; the agent removed it", current)
            log.info("removed %s, which was still %s", row.key, row.state, extra=about(row.key))
    if done:
        failpoint("recovery.rows")
    return done
