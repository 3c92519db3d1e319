"""ADD: reserves, applies and commits an attachment, or rolls everything back."""

from __future__ import annotations

import asyncio
import errno
import os

from msgspec.structs import replace

from ...cni import InvalidNetns, IOFailure, TryAgainLater
from ...cni.skel import Request
from ...failpoints import failpoint
from ...journal import Attachment, JournalError, boottime
from ...kernel import Change, Conflict, KernelError, Namespace, Plan, Veth
from ...networks.config import network_of
from ...networks.features import ports
from ...ops.node.namespaces import is_another, leads_there
from ...ops.node.table_contents import is_of_table
from ..host_view import is_dead
from ..node import Node
from ..server.record import Timer
from ..server.server import Client
from .continuation import Steps, run_continuation
from .delete import detaching
from .errors import AttachedElsewhere, OfOrphan, PortOfOrphan, PortTaken
from .reservation import Reserved, Wanted, reserve, wanted_of

# How long the kernel may take to delete a namespace whose path leads to another one already.
_PATIENCE = 1.0
_TRIES = 3


async def add(node: Node, request: Request, netns: int | None, client: Client, timer: Timer) -> bytes:
    network = network_of(request)
    if netns is None:
        raise InvalidNetns("ADD needs the container's network namespace")
    status = os.fstat(netns)
    wanted = wanted_of(request, network, (status.st_dev, status.st_ino), node.boot_id, host=node.host)
    if failure := node.journal_keeper.failure():
        raise IOFailure("the attachment cannot be recorded", failure)
    node.networks.asked(request.network, network)
    failpoint("add.judged")
    timer.lap("judge")
    async with node.locks.of(wanted.key):
        if client.is_disconnected:
            raise TryAgainLater("the plugin disconnected while its ADD waited; nothing was done")
        timer.lap("queue")
        with Namespace.of_descriptor(netns, request.netns) as namespace:
            node.host_view.require_container(namespace)
            attached = await _attach(node, wanted, namespace, timer)
    return attached.answer(request.cni_version)


async def _attach(node: Node, wanted: Wanted, netns: Namespace, timer: Timer) -> Reserved:
    reserved = await _attached(node, wanted, netns, timer)
    if not reserved.is_new and await _is_in_the_way(node, reserved, wanted, netns):
        # An unfinished operation left it, or its container no longer exists.
        await run_continuation(detaching(node, reserved.attachment))
        reserved = await _attached(node, wanted, netns, timer)
    if not reserved.is_new:
        await _repeat(node, reserved, wanted, netns, timer)
        return reserved
    failpoint("add.committed")
    node.attachments.add_recent(reserved.attachment.id)
    if await node.flows.ports_added(ports.of_plan(reserved.plan)):
        timer.lap("flows")
    return reserved


async def _attached(node: Node, wanted: Wanted, netns: Namespace, timer: Timer) -> Reserved:
    """Reserves, applies and commits. Repairs some causes of failure at once, and tries again.

    These are: another program flushed the nft tables; a container that no longer exists, and is in its grace
    period, has the host port; an orphaned link, from a lost journal, has the address.
    """
    for _ in range(_TRIES - 1):
        try:
            return await run_continuation(_steps(node, wanted, netns, timer))
        except PortTaken as error:
            if not await _has_left(node, error.holder):
                raise
        except Conflict as error:
            if is_of_table(error):
                # Another program changed a chain or added an element.
                await node.table.lay_down()
            elif not await node.orphans.refresh(wanted.host.orphans):
                raise
        except (OfOrphan, PortOfOrphan):
            if not await node.orphans.refresh(wanted.host.orphans):
                raise
        except KernelError as error:
            if error.errno != errno.ENOENT:
                raise
            await node.table.keep()
        wanted = replace(wanted, host=node.host)
    return await run_continuation(_steps(node, wanted, netns, timer))


async def _has_left(node: Node, holder: Attachment) -> bool:
    """Releases an attachment whose namespace no longer exists, unless another operation has its lock.

    Returns whether the port may be free now.
    """
    if node.locks.is_busy(holder.key) or not await is_dead(holder) or node.locks.is_busy(holder.key):
        return False
    async with node.locks.of(holder.key):
        found = await node.journal.ask(lambda ledger: ledger.by_id(holder.id))
        if found is not None:
            await run_continuation(detaching(node, found))
            why = f"its namespace {found.netns} no longer exists, and an ADD needs its host port"
            node.events.record("RELEASE", why, found)
    return True


def _steps(node: Node, wanted: Wanted, netns: Namespace, timer: Timer) -> Steps[Reserved]:
    """Returns the committed attachment, or the one that the key had before. Rolls back on errors."""
    reserved: Reserved = yield node.journal.note(lambda ledger: reserve(ledger, wanted, lambda: netns.cookie))
    timer.lap("reserve")
    timer.attachment = reserved.attachment
    if not reserved.is_new:
        return reserved
    failpoint("add.reserved")
    number = reserved.attachment.id
    try:
        applying = node.dataplane.apply(reserved.plan, netns)
        if _was_there(reserved.plan, (yield applying)):
            # The link is from a lost journal, and has unknown addresses.
            yield node.dataplane.remove(reserved.plan, netns)
            applying = node.dataplane.apply(reserved.plan, netns)
            yield applying
            node.orphans.forget(reserved.attachment.host_link)
            node.table.schedule_stray_rounds()
        timer.lap("kernel")
        failpoint("add.applied")
        yield node.journal.change(lambda ledger: ledger.commit(number, applying.netns_cookie))
        timer.lap("commit")
    except BaseException as error:
        yield from _undoing(node, reserved, netns, error)
        timer.lap("undo")
        raise
    return reserved


def _was_there(plan: Plan, changes: list[Change]) -> bool:
    """Whether the link existed before."""
    outcomes = zip(plan.objects, changes, strict=True)
    return any(isinstance(item, Veth) and it.change == "kept" for item, it in outcomes)


async def _is_in_the_way(node: Node, reserved: Reserved, wanted: Wanted, netns: Namespace) -> bool:
    found = reserved.attachment
    if not reserved.is_readable or found.state != "committed" or node.attachments.has_departed(found.key):
        return True
    if await is_dead(found) or await is_another(netns, found):
        return True
    # If its path leads elsewhere, the kernel may be about to delete the namespace.
    deadline = boottime() + _PATIENCE
    while found.netns == wanted.netns and not leads_there(found) and boottime() < deadline:
        await asyncio.sleep(0.02)
        if await is_dead(found):
            return True
    return False


async def _repeat(node: Node, again: Reserved, wanted: Wanted, netns: Namespace, timer: Timer) -> None:
    """Answers a repeated ADD with the recorded result, after restoring the planned state."""
    found = again.attachment
    if (found.netns_device, found.netns_inode) != (wanted.netns_device, wanted.netns_inode):
        raise AttachedElsewhere(
            f"already attached in another namespace: {found.netns}", "delete that attachment first"
        )
    if found.config_hash != wanted.network.hash:
        raise AttachedElsewhere("already attached with another configuration", "delete that attachment first")
    differences = await node.dataplane.check(again.plan, netns)
    if differences:
        lost = {it.object for it in differences if it.what == "missing"}
        await node.table.keep()
        try:
            await node.dataplane.apply(again.plan, netns)
        except Conflict as error:
            if not is_of_table(error):
                raise
            await node.table.lay_down()
            await node.dataplane.apply(again.plan, netns)
        node.tally.count("repaired")
        node.tally.repaired(again.plan, lost)
        node.events.record("REPAIR", "a repeated ADD put back missing objects", found)
    timer.lap("kernel")


def _undoing(node: Node, reserved: Reserved, netns: Namespace, error: BaseException) -> Steps[None]:
    """Rolls back an ADD that could not be committed; the dataplane rolls back a failed apply by itself.

    The addresses skip the cooldown, because no runtime learned of them.
    """
    number = reserved.attachment.id
    try:
        yield node.dataplane.remove(reserved.plan, netns)
        failpoint("add.undone")
        yield node.journal.change(lambda ledger: ledger.forget(number, resting_since=None))
        failpoint("add.freed")
    except (KernelError, JournalError) as failure:
        # The row stays pending: the next ADD or DEL of this key, the next tick or the next start removes it.
        error.add_note(f"could not be undone: {failure}")
        node.tally.count("unfinished")
