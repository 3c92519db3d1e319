"""DEL: marks, removes and releases an attachment, without its namespace or a valid configuration."""

from __future__ import annotations

from collections.abc import Callable

from ...cni import AttachmentKey
from ...failpoints import failpoint
from ...journal import Attachment, Ledger, Unwritable, boottime
from ...kernel import Conflict, Incomplete, InvalidNamespace, KernelError, Namespace, Plan, Up
from ...networks.attachment import readable_plan, remnants_of
from ...networks.features import ports
from ...networks.modes import known_modes
from ...networks.modes.base import Lost
from ...networks.names import names_of
from ...ops.node.namespaces import namespace_of
from ...ops.node.table_contents import is_of_table
from ..node import Node
from ..server.record import Timer
from .continuation import Steps, run_continuation


async def delete(
    node: Node,
    key: AttachmentKey,
    netns: int | None,
    timer: Timer,
    *,
    sent_before: float | None = None,
    keep: Callable[[], None] | None = None,
) -> bool:
    """Deletes an attachment. Returns whether there was one.

    `sent_before` keeps attachments that are younger. `keep` queues the request: if the journal cannot store
    the deletion, the attachment is deleted anyway, and a replay stores it later.
    """
    given = None if netns is None else _opened(netns)
    try:
        async with node.locks.of(key):
            timer.lap("queue")
            return await run_continuation(_steps(node, key, given, timer, sent_before, keep))
    finally:
        if given is not None:
            given.close()


def _opened(netns: int) -> Namespace | None:
    """Opens the passed descriptor; None if it is not a namespace, which DEL does not need."""
    try:
        return Namespace.of_descriptor(netns, "the container's namespace")
    except InvalidNamespace:
        return None


def _steps(
    node: Node,
    key: AttachmentKey,
    netns: Namespace | None,
    timer: Timer,
    sent_before: float | None,
    keep: Callable[[], None] | None,
) -> Steps[bool]:
    found: Attachment | None
    try:
        found = yield node.journal.note(lambda ledger: _marked(ledger, key, sent_before))
    except Unwritable:
        if keep is None:
            raise
        found = yield node.journal.ask(lambda ledger: _meant(ledger, key, sent_before))
        if found is not None:
            keep()
            node.attachments.add_departed(key)
    timer.lap("mark")
    timer.attachment = found
    if found is None:
        yield from _removing_forgotten(node, key)
        return False
    failpoint("del.marked")
    has_conflict = yield from _removing(node, found, netns)
    timer.lap("kernel")
    failpoint("del.removed")
    number = found.id
    try:
        yield node.journal.change(lambda ledger: ledger.forget(number, resting_since=boottime()))
    except Unwritable:
        if keep is None:
            raise
        keep()
        node.attachments.add_departed(key)
    else:
        node.attachments.forget_departed(key)
    yield from _repairing_table(node, has_conflict)
    timer.lap("release")
    failpoint("del.released")
    return True


def _removing_forgotten(node: Node, key: AttachmentKey) -> Steps[None]:
    """Removes the link of an attachment from a lost journal: the link's name follows from the key.

    The mode that created it is unknown, so each mode removes what it would have created.
    """
    name = names_of(key).host_link
    if (yield node.journal.ask(lambda ledger: ledger.has_link(name))):
        return  # another attachment's, or younger than the request
    differences = yield node.dataplane.check(Plan((Up(name),)))
    if any(it.what == "missing" for it in differences):
        return
    is_gone = False
    for mode in known_modes():
        try:
            yield node.dataplane.remove(mode.remnants(Lost(name, key.ifname)))
            is_gone = True
        except Conflict:
            continue
    if is_gone:
        node.orphans.forget(name)
    else:
        node.tally.count("strangers")
    node.table.schedule_stray_rounds()


def _meant(ledger: Ledger, key: AttachmentKey, sent_before: float | None) -> Attachment | None:
    found = ledger.find(key)
    if found is None or (sent_before is not None and found.created > sent_before):
        return None
    return found


def _marked(ledger: Ledger, key: AttachmentKey, sent_before: float | None) -> Attachment | None:
    found = _meant(ledger, key, sent_before)
    if found is not None and found.state != "deleting":
        ledger.set_state(found.id, "deleting")
    return found


def detaching(node: Node, attachment: Attachment) -> Steps[None]:
    """Deletes an attachment whose lock the caller holds. Addresses of a pending one skip the cooldown."""
    has_conflict = yield from _removing(node, attachment, None)
    resting = None if attachment.state == "pending" else boottime()
    yield node.journal.change(lambda ledger: ledger.forget(attachment.id, resting_since=resting))
    node.attachments.forget_departed(attachment.key)
    yield from _repairing_table(node, has_conflict)


def _removing(node: Node, attachment: Attachment, netns: Namespace | None) -> Steps[bool]:
    """Removes the attachment's objects. Returns whether netloom's nft table has a conflicting object."""
    plan = readable_plan(attachment)
    if plan is None:
        plan = yield node.journal.ask(lambda ledger: remnants_of(ledger, attachment))
        node.table.schedule_stray_rounds()
    namespace = namespace_of(attachment, netns)
    conflicts: list[Conflict] = []
    try:
        yield node.dataplane.remove(plan, namespace)
    except Conflict as error:
        conflicts = [error]
    except Incomplete as error:
        others = [it for it in error.errors if not isinstance(it, Conflict)]
        if others:
            raise Incomplete(others) from None
        conflicts = [it for it in error.errors if isinstance(it, Conflict)]
    finally:
        node.flows.ports_removed(ports.of_plan(plan))
        if namespace is not None:
            namespace.close()
    # Another program's object replaced the planned one. It stays, unless it is in netloom's own table.
    if conflicts:
        node.tally.count("strangers")
    return any(map(is_of_table, conflicts))


def _repairing_table(node: Node, has_conflict: bool) -> Steps[None]:
    """Writes the table again, without the deleted elements, if it has a conflicting object."""
    if not has_conflict:
        return
    try:
        yield node.table.laying()
    except KernelError:
        node.table.schedule_stray_rounds()
