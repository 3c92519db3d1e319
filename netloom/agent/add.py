"""ADD: reserved, applied, committed; or undone, as if it had never been asked."""

from __future__ import annotations

import os
from contextlib import suppress

from ..cni import InvalidNetns, Result, TryAgainLater, decode_result
from ..cni.skel import Request
from ..failpoints import reach
from ..journal import Attachment, JournalError
from ..kernel import KernelError, Plan
from .delete import detach
from .failure import AttachedElsewhere
from .network import network_of
from .node import Node, namespace_of
from .presence import is_dead
from .reservation import Reserved, Wanted, reserve, wanted_of
from .server import Client
from .stopwatch import Stopwatch


async def add(node: Node, request: Request, netns: int | None, client: Client, watch: Stopwatch) -> bytes:
    network = network_of(request)
    if netns is None:
        raise InvalidNetns("ADD needs the container's network namespace")
    status = os.fstat(netns)
    wanted = wanted_of(
        request, network, (status.st_dev, status.st_ino), node.boot_id, mtu=node.mtu, ipv6=node.ipv6
    )
    reach("add.judged")
    watch.lap("judge")
    async with node.turns.of(wanted.key):
        if client.gone:
            raise TryAgainLater("whoever asked is gone; nothing was done")
        watch.lap("queue")
        result = await _attach(node, wanted, netns, watch)
    return result.as_version(request.cni_version).encode()


async def _attach(node: Node, wanted: Wanted, netns: int, watch: Stopwatch) -> Result:
    reserved = await _reserved(node, wanted)
    watch.lap("reserve")
    if not reserved.is_new:
        return await _repeated(node, reserved.attachment, wanted, netns, watch)
    attachment = reserved.attachment
    reach("add.reserved")
    try:
        await node.dataplane.apply(Plan.decode(attachment.plan), netns)
        watch.lap("kernel")
        reach("add.applied")
        await node.journal.change(lambda ledger: ledger.set_state(attachment.id, "committed"))
        watch.lap("commit")
    except BaseException as error:
        await _undo(node, attachment, netns, error)
        watch.lap("undo")
        raise
    reach("add.committed")
    return _result(attachment)


async def _reserved(node: Node, wanted: Wanted) -> Reserved:
    reserved = await node.journal.change(lambda ledger: reserve(ledger, wanted))
    found = reserved.attachment
    if reserved.is_new or (found.state == "committed" and not await _is_left_over(node, found, wanted)):
        return reserved
    # What an earlier operation did not finish, or a container that is gone, must not be in the way.
    await detach(node, found, None)
    return await node.journal.change(lambda ledger: reserve(ledger, wanted))


async def _is_left_over(node: Node, found: Attachment, wanted: Wanted) -> bool:
    identity = (wanted.netns_device, wanted.netns_inode)
    return (found.netns_device, found.netns_inode) != identity and await is_dead(node, found)


async def _repeated(node: Node, found: Attachment, wanted: Wanted, netns: int, watch: Stopwatch) -> Result:
    """The same again is the same answer, if the kernel has it as planned, or can have it so again."""
    if (found.netns_device, found.netns_inode) != (wanted.netns_device, wanted.netns_inode):
        raise AttachedElsewhere(
            f"it is attached already, in another namespace: {found.netns}", "delete that attachment first"
        )
    if found.config_hash != wanted.network.hash:
        raise AttachedElsewhere(
            "it is attached already, with another configuration", "delete that attachment first"
        )
    plan = Plan.decode(found.plan)
    if await node.dataplane.check(plan, netns):
        await node.dataplane.apply(plan, netns)
        node.counters["repaired"] += 1
    watch.lap("kernel")
    return _result(found)


async def _undo(node: Node, attachment: Attachment, netns: int, error: BaseException) -> None:
    """What failed to apply is taken back by the dataplane; what failed to commit, by us.

    The addresses are free at once: nobody was ever told of them.
    """
    try:
        namespace = namespace_of(attachment, netns)
        try:
            await node.dataplane.remove(Plan.decode(attachment.plan), namespace)
        finally:
            if namespace is not None:
                namespace.close()
        reach("add.undone")
        await node.journal.change(lambda ledger: ledger.forget(attachment.id, resting_since=None))
        reach("add.freed")
    except (KernelError, JournalError) as failure:
        # The row stays pending: whoever comes next with this key, or the next start, takes it away.
        error.add_note(f"could not be undone: {failure}")
        with suppress(JournalError):
            node.counters["unfinished"] += 1


def _result(attachment: Attachment) -> Result:
    result = decode_result(attachment.result)
    assert isinstance(result, Result)
    return result
