"""DEL: marked, removed, released. It needs neither the namespace nor a valid configuration."""

from __future__ import annotations

from collections.abc import Callable

from ..cni import AttachmentKey
from ..failpoints import reach
from ..journal import Attachment, Ledger, Unwritable, boottime
from ..kernel import Conflict, Incomplete, KernelError, Plan
from .node import Node, namespace_of
from .stopwatch import Stopwatch


async def delete(
    node: Node,
    key: AttachmentKey,
    netns: int | None,
    watch: Stopwatch,
    *,
    sent_before: float | None = None,
    keep: Callable[[], None] | None = None,
) -> bool:
    """Whether there was something to delete.

    `sent_before` spares attachments that are younger. `keep` puts the request where it is found again:
    if the disk does not take that the attachment goes, it goes all the same, and is written down later.
    """
    async with node.turns.of(key):
        watch.lap("queue")
        try:
            found = await node.journal.change(lambda ledger: _marked(ledger, key, sent_before))
        except Unwritable:
            if keep is None:
                raise
            found = await node.journal.ask(lambda ledger: ledger.find(key))
            keep()
        watch.lap("mark")
        if found is None:
            return False
        reach("del.marked")
        await _remove(node, found, netns)
        watch.lap("kernel")
        reach("del.removed")
        try:
            await node.journal.change(lambda ledger: ledger.forget(found.id, resting_since=boottime()))
        except Unwritable:
            if keep is None:
                raise
            keep()
        watch.lap("release")
        reach("del.released")
        return True


def _marked(ledger: Ledger, key: AttachmentKey, sent_before: float | None) -> Attachment | None:
    found = ledger.find(key)
    if found is None or (sent_before is not None and found.created > sent_before):
        return None
    if found.state != "deleting":
        ledger.set_state(found.id, "deleting")
    return found


async def detach(node: Node, attachment: Attachment, netns: int | None) -> None:
    """Takes away an attachment whose turn the caller has. If nobody was told, its addresses are free."""
    await _remove(node, attachment, netns)
    resting = None if attachment.state == "pending" else boottime()
    await node.journal.change(lambda ledger: ledger.forget(attachment.id, resting_since=resting))


async def _remove(node: Node, attachment: Attachment, netns: int | None) -> None:
    namespace = namespace_of(attachment, netns)
    try:
        await node.dataplane.remove(Plan.decode(attachment.plan), namespace)
    except Conflict:
        # Something else is in the place of ours, which is gone; it stays.
        node.counters["strangers"] += 1
    except Incomplete as error:
        others: list[KernelError] = [it for it in error.errors if not isinstance(it, Conflict)]
        if others:
            raise Incomplete(others) from None
        node.counters["strangers"] += 1
    finally:
        if namespace is not None:
            namespace.close()
