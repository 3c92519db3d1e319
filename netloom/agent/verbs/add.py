"""ADD: reserved, applied, committed; or undone, as if it had never been asked."""

from __future__ import annotations

import asyncio
import errno
import os

from msgspec.structs import replace

from ...cni import InvalidNetns, IOFailure, TryAgainLater
from ...cni.skel import Request
from ...failpoints import reach
from ...journal import Attachment, JournalError, boottime
from ...kernel import Change, Conflict, KernelError, Namespace, Plan, Veth
from ...networks.config import network_of
from ...networks.features import ports
from ...ops.node.presence import is_another, leads_there
from ...ops.node.table_contents import is_of_table
from ..node import Node, is_dead
from ..server.server import Client
from ..server.timer import Course
from .continuation import Steps, relay
from .delete import detaching
from .errors import AttachedElsewhere, OfOrphan, PortOfOrphan, PortTaken
from .reservation import Reserved, Wanted, reserve, wanted_of

# How long a namespace may take to go whose path leads to another already.
_PATIENCE = 1.0
_TRIES = 3


async def add(node: Node, request: Request, netns: int | None, client: Client, course: Course) -> bytes:
    network = network_of(request)
    if netns is None:
        raise InvalidNetns("ADD needs the container's network namespace")
    status = os.fstat(netns)
    wanted = wanted_of(request, network, (status.st_dev, status.st_ino), node.boot_id, host=node.host)
    if "journal" in node.troubles or "damage" in node.troubles:
        raise IOFailure(node.troubles.get("journal") or node.troubles["damage"])
    node.networks.asked(request.network, network)
    reach("add.judged")
    course.lap("judge")
    async with node.turns.of(wanted.key):
        if client.gone:
            raise TryAgainLater("whoever asked is gone; nothing was done")
        course.lap("queue")
        with Namespace.of_descriptor(netns, request.netns) as namespace:
            node.require_container(namespace)
            attached = await _attach(node, wanted, namespace, course)
    return attached.answer(request.cni_version)


async def _attach(node: Node, wanted: Wanted, netns: Namespace, course: Course) -> Reserved:
    reserved = await _attached(node, wanted, netns, course)
    if not reserved.is_new and await _is_in_the_way(node, reserved, wanted, netns):
        # What an earlier operation did not finish, or a container that is gone.
        await relay(detaching(node, reserved.attachment))
        reserved = await _attached(node, wanted, netns, course)
    if not reserved.is_new:
        await _repeat(node, reserved, wanted, netns, course)
        return reserved
    reach("add.committed")
    node.recent.append(reserved.attachment.id)
    if await node.flows.came(ports.of_plan(reserved.plan)):
        course.lap("flows")
    return reserved


async def _attached(node: Node, wanted: Wanted, netns: Namespace, course: Course) -> Reserved:
    """Somebody may just have flushed all tables: nobody has to wait for the next tick to mend that.

    Nor for the grace of a container that is gone, whose host port its successor wants. And if an address is
    still that of a link which a lost journal knew, the next one is taken.
    """
    for _ in range(_TRIES - 1):
        try:
            return await relay(_steps(node, wanted, netns, course))
        except PortTaken as error:
            if not await _has_left(node, error.holder):
                raise
        except Conflict as error:
            if is_of_table(error):
                # Of a chain that somebody has changed, or an element that somebody has put there.
                await node.lay_down()
            elif not await node.learn_orphans(wanted.host.orphans):
                raise
        except (OfOrphan, PortOfOrphan):
            if not await node.learn_orphans(wanted.host.orphans):
                raise
        except KernelError as error:
            if error.errno != errno.ENOENT:
                raise
            await node.keep_guarded()
        wanted = replace(wanted, host=node.host)
    return await relay(_steps(node, wanted, netns, course))


async def _has_left(node: Node, holder: Attachment) -> bool:
    """Takes away an attachment of a namespace that is gone. Not while somebody is at work on it."""
    if node.turns.is_busy(holder.key) or not await is_dead(node, holder) or node.turns.is_busy(holder.key):
        return False
    async with node.turns.of(holder.key):
        found = await node.journal.ask(lambda ledger: ledger.by_id(holder.id))
        if found is not None:
            await relay(detaching(node, found))
            node.tell("RELEASE", f"its namespace {found.netns} is gone, and its port was asked for", found)
    return True


def _steps(node: Node, wanted: Wanted, netns: Namespace, course: Course) -> Steps[Reserved]:
    """Ends committed, or with the attachment that the key had before, or as it began."""
    reserved: Reserved = yield node.journal.note(lambda ledger: reserve(ledger, wanted, lambda: netns.cookie))
    course.lap("reserve")
    course.attachment = reserved.attachment
    if not reserved.is_new:
        return reserved
    reach("add.reserved")
    number = reserved.attachment.id
    try:
        applying = node.dataplane.apply(reserved.plan, netns)
        if _was_there(reserved.plan, (yield applying)):
            # Of a journal that was lost: it has addresses that nobody knows of.
            yield node.dataplane.remove(reserved.plan, netns)
            applying = node.dataplane.apply(reserved.plan, netns)
            yield applying
            node.forget_orphan(reserved.attachment.host_link)
            node.look_for_strays()
        course.lap("kernel")
        reach("add.applied")
        yield node.journal.change(lambda ledger: ledger.commit(number, applying.netns_cookie))
        course.lap("commit")
    except BaseException as error:
        yield from _undoing(node, reserved, netns, error)
        course.lap("undo")
        raise
    return reserved


def _was_there(plan: Plan, changes: list[Change]) -> bool:
    """Whether the link was kept, and not made."""
    outcomes = zip(plan.objects, changes, strict=True)
    return any(isinstance(item, Veth) and it.change == "kept" for item, it in outcomes)


async def _is_in_the_way(node: Node, reserved: Reserved, wanted: Wanted, netns: Namespace) -> bool:
    found = reserved.attachment
    if not reserved.is_readable or found.state != "committed" or found.key in node.departed:
        return True
    if await is_dead(node, found) or await is_another(netns, found):
        return True
    # One whose path leads elsewhere may be on its way out; the kernel takes it apart when it has the time.
    deadline = boottime() + _PATIENCE
    while found.netns == wanted.netns and not leads_there(found) and boottime() < deadline:
        await asyncio.sleep(0.02)
        if await is_dead(node, found):
            return True
    return False


async def _repeat(node: Node, again: Reserved, wanted: Wanted, netns: Namespace, course: Course) -> None:
    """The same again is the same answer, if the kernel has it as planned, or can have it so again."""
    found = again.attachment
    if (found.netns_device, found.netns_inode) != (wanted.netns_device, wanted.netns_inode):
        raise AttachedElsewhere(
            f"it is attached already, in another namespace: {found.netns}", "delete that attachment first"
        )
    if found.config_hash != wanted.network.hash:
        raise AttachedElsewhere(
            "it is attached already, with another configuration", "delete that attachment first"
        )
    differences = await node.dataplane.check(again.plan, netns)
    if differences:
        lost = {it.object for it in differences if it.what == "missing"}
        await node.keep_guarded()
        try:
            await node.dataplane.apply(again.plan, netns)
        except Conflict as error:
            if not is_of_table(error):
                raise
            await node.lay_down()
            await node.dataplane.apply(again.plan, netns)
        node.counters["repaired"] += 1
        node.tally.repaired(again.plan, lost)
        node.tell("REPAIR", "put back what was missing, at a repeated ADD", found)
    course.lap("kernel")


def _undoing(node: Node, reserved: Reserved, netns: Namespace, error: BaseException) -> Steps[None]:
    """What failed to apply is taken back by the dataplane; what failed to commit, by us.

    The addresses are free at once: nobody was ever told of them.
    """
    number = reserved.attachment.id
    try:
        yield node.dataplane.remove(reserved.plan, netns)
        reach("add.undone")
        yield node.journal.change(lambda ledger: ledger.forget(number, resting_since=None))
        reach("add.freed")
    except (KernelError, JournalError) as failure:
        # The row stays pending: whoever comes next with this key, the next tick or start takes it away.
        error.add_note(f"could not be undone: {failure}")
        node.counters["unfinished"] += 1
