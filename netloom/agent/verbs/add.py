"""ADD: reserved, applied, committed; or undone, as if it had never been asked."""

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

# How long a namespace may take to go whose path leads to another already.
_PATIENCE = 1.0
_TRIES = 3


async def add(node: Node, request: Request, netns: int | None, client: Client, timer: Timer) -> bytes:
    network = network_of(request)
    if netns is None:
        raise InvalidNetns("ADD needs the container's network namespace")
    status = os.fstat(netns)
    wanted = wanted_of(request, network, (status.st_dev, status.st_ino), node.boot_id, host=node.host)
    if failure := node.journal_keeper.failure():
        raise IOFailure(failure)
    node.networks.asked(request.network, network)
    failpoint("add.judged")
    timer.lap("judge")
    async with node.locks.of(wanted.key):
        if client.gone:
            raise TryAgainLater("the plugin disconnected while its ADD waited; nothing was done")
        timer.lap("queue")
        with Namespace.of_descriptor(netns, request.netns) as namespace:
            node.host_view.require_container(namespace)
            attached = await _attach(node, wanted, namespace, timer)
    return attached.answer(request.cni_version)


async def _attach(node: Node, wanted: Wanted, netns: Namespace, timer: Timer) -> Reserved:
    reserved = await _attached(node, wanted, netns, timer)
    if not reserved.is_new and await _is_in_the_way(node, reserved, wanted, netns):
        # What an earlier operation did not finish, or a container that is gone.
        await run_continuation(detaching(node, reserved.attachment))
        reserved = await _attached(node, wanted, netns, timer)
    if not reserved.is_new:
        await _repeat(node, reserved, wanted, netns, timer)
        return reserved
    failpoint("add.committed")
    node.attachments.add_recent(reserved.attachment.id)
    if await node.flows.came(ports.of_plan(reserved.plan)):
        timer.lap("flows")
    return reserved


async def _attached(node: Node, wanted: Wanted, netns: Namespace, timer: Timer) -> Reserved:
    """Somebody may just have flushed all tables: nobody has to wait for the next tick to mend that.

    Nor for the grace of a container that is gone, whose host port its successor wants. And if an address is
    still that of a link which a lost journal knew, the next one is taken.
    """
    for _ in range(_TRIES - 1):
        try:
            return await run_continuation(_steps(node, wanted, netns, timer))
        except PortTaken as error:
            if not await _has_left(node, error.holder):
                raise
        except Conflict as error:
            if is_of_table(error):
                # Of a chain that somebody has changed, or an element that somebody has put there.
                await node.table.lay_down()
            elif not await node.orphans.learn(wanted.host.orphans):
                raise
        except (OfOrphan, PortOfOrphan):
            if not await node.orphans.learn(wanted.host.orphans):
                raise
        except KernelError as error:
            if error.errno != errno.ENOENT:
                raise
            await node.table.keep()
        wanted = replace(wanted, host=node.host)
    return await run_continuation(_steps(node, wanted, netns, timer))


async def _has_left(node: Node, holder: Attachment) -> bool:
    """Takes away an attachment of a namespace that is gone. Not while somebody is at work on it."""
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
    """Ends committed, or with the attachment that the key had before, or as it began."""
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
            # Of a journal that was lost: it has addresses that nobody knows of.
            yield node.dataplane.remove(reserved.plan, netns)
            applying = node.dataplane.apply(reserved.plan, netns)
            yield applying
            node.orphans.forget(reserved.attachment.host_link)
            node.table.look_for_strays()
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
    """Whether the link was kept, and not made."""
    outcomes = zip(plan.objects, changes, strict=True)
    return any(isinstance(item, Veth) and it.change == "kept" for item, it in outcomes)


async def _is_in_the_way(node: Node, reserved: Reserved, wanted: Wanted, netns: Namespace) -> bool:
    found = reserved.attachment
    if not reserved.is_readable or found.state != "committed" or node.attachments.has_departed(found.key):
        return True
    if await is_dead(found) or await is_another(netns, found):
        return True
    # One whose path leads elsewhere may be on its way out; the kernel takes it apart when it has the time.
    deadline = boottime() + _PATIENCE
    while found.netns == wanted.netns and not leads_there(found) and boottime() < deadline:
        await asyncio.sleep(0.02)
        if await is_dead(found):
            return True
    return False


async def _repeat(node: Node, again: Reserved, wanted: Wanted, netns: Namespace, timer: Timer) -> None:
    """The same again is the same answer, if the kernel has it as planned, or can have it so again."""
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
    """What failed to apply is taken back by the dataplane; what failed to commit, by us.

    The addresses are free at once: nobody was ever told of them.
    """
    number = reserved.attachment.id
    try:
        yield node.dataplane.remove(reserved.plan, netns)
        failpoint("add.undone")
        yield node.journal.change(lambda ledger: ledger.forget(number, resting_since=None))
        failpoint("add.freed")
    except (KernelError, JournalError) as failure:
        # The row stays pending: whoever comes next with this key, the next tick or start takes it away.
        error.add_note(f"could not be undone: {failure}")
        node.tally.count("unfinished")
