"""The RPCs `collect` and `repair`: what the reconciler would do later, at an operator's request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from ...api.protocol import Key, RepairAnswer, RepairedAttachment, RepairRequest
from ...journal import boottime
from ...kernel import Ifb, Namespace, Plan
from ...kernel.objects.link import link_names
from ...ops.node.garbage import Collected, Leak, leaks, stray_queues
from ..host_view import ask_kernel
from ..node import Node
from ..server.record import Timer
from ..verbs.delete import delete
from . import queued_dels
from .recovery import finish, forget_rested

if TYPE_CHECKING:
    from ...journal import Attachment
    from ...kernel import Plan
    from ..node import Node
    from .repair import RepairOutcome


# Seconds between the two checks that must find an attachment dead.
_PAUSE = 0.25


async def collect_now(node: Node, _: bytes) -> bytes:
    before = await _find_leaks(node)
    await queued_dels.replay(node)
    await finish(node)
    await asyncio.sleep(_PAUSE)
    again = await _find_leaks(node)
    await _release(node, _dead(before) & _dead(again))
    await _remove_strays(node)
    await node.orphans.refresh()
    await forget_rested(node)
    after = await _find_leaks(node)
    there = {(it.kind, it.subject) for it in after}
    gone = [it for it in [*before, *again] if not it.kept and (it.kind, it.subject) not in there]
    return msgspec.json.encode(Collected(list(dict.fromkeys(gone)), after))


def _dead(found: list[Leak]) -> set[str]:
    return {it.subject for it in found if it.kind == "attachment" and not it.kept}


async def _find_leaks(node: Node) -> list[Leak]:
    directory, busy = node.settings.intents, node.locks.is_busy

    def find(host: Namespace) -> list[Leak]:
        return node.journal.survey(lambda ledger: leaks(ledger, host, directory, node.boot_id, busy))

    return await ask_kernel(find)


async def _release(node: Node, dead: set[str]) -> None:
    """Releases attachments that are older than the request and have no operation in progress."""
    now = boottime()
    for place in await node.journal.ask(lambda ledger: ledger.places()):
        if str(place.key) not in dead or node.locks.is_busy(place.key):
            continue
        timer = Timer()
        if await delete(node, place.key, None, timer, sent_before=now):
            node.tally.count("leaked")
            node.events.record(
                "RELEASE", f"an operator asked for it; {place.netns} no longer exists", timer.attachment
            )


async def _remove_strays(node: Node) -> None:
    await node.table.remove_strays()
    if (await ask_kernel(lambda host: _queues(node, host))).objects:
        await node.dataplane.remove_found(lambda host: _queues(node, host))


def _queues(node: Node, host: Namespace) -> Plan:
    """Returns the stray queues at the time of their removal."""
    links = link_names(host)
    return Plan(tuple(map(Ifb, node.journal.survey(lambda ledger: stray_queues(ledger, links)))))


async def repair(node: Node, body: bytes) -> bytes:
    wish = msgspec.json.decode(body or b"{}", type=RepairRequest)
    table = await node.table.keep()
    repaired = [await _repaired(node, key, wish.recreate) for key in wish.keys]
    return msgspec.json.encode(RepairAnswer(table, repaired))


async def _repaired(node: Node, key: Key, recreate: bool) -> RepairedAttachment:
    from ...cni import AttachmentKey
    from ...journal import JournalError
    from ...kernel import KernelError

    wanted = AttachmentKey(*key)
    try:
        async with node.locks.of(wanted):
            found = await node.journal.ask(lambda ledger: ledger.find(wanted))
            if found is None:
                return _undone(key, "not attached")
            if found.state != "committed" or node.attachments.has_departed(wanted):
                return _undone(key, "its ADD or DEL is unfinished; the agent removes it by itself")
            return await _of_attachment(node, found, recreate)
    except (KernelError, JournalError) as error:
        return _undone(key, str(error))


async def _of_attachment(node: Node, attachment: Attachment, recreate: bool) -> RepairedAttachment:
    from ...networks.attachment import readable_plan
    from ...ops.node.namespaces import is_another, namespace_of
    from .repair import judge, set_right

    key = attachment.key
    plan = readable_plan(attachment)
    if plan is None:
        return _undone(key, "its plan cannot be read; it can only be deleted")
    namespace = namespace_of(attachment)
    if namespace is None:
        return _undone(key, f"its namespace {attachment.netns} no longer exists; `netloom gc` releases it")
    try:
        if await is_another(namespace, attachment):
            return _undone(key, f"{attachment.netns} leads to another namespace; `netloom gc` releases it")
        outcome = await set_right(node, attachment, plan, namespace, recreate=recreate)
        await judge(node, attachment, plan, outcome.left)
    finally:
        namespace.close()
    answer = RepairedAttachment(
        attachment=str(key),
        put_back=list(outcome.put_back),
        set_right=list(outcome.set_right),
        recreated=outcome.recreated,
        left=[*map(str, outcome.left), *outcome.errors],
        error="",
    )
    if answer.changed:
        _record_repair(node, attachment, plan, outcome)
    return answer


def _record_repair(node: Node, attachment: Attachment, plan: Plan, outcome: RepairOutcome) -> None:
    done = [
        *([f"put back: {', '.join(outcome.put_back)}"] if outcome.put_back else []),
        *([f"set right: {', '.join(outcome.set_right)}"] if outcome.set_right else []),
        *(["recreated its link"] if outcome.recreated else []),
    ]
    node.tally.count("repaired")
    node.tally.repaired(plan, outcome.put_back)
    node.events.record("REPAIR", f"an operator asked for it; {'; '.join(done)}", attachment)


def _undone(key: Key, error: str) -> RepairedAttachment:
    return RepairedAttachment(
        attachment="/".join(key), put_back=[], set_right=[], recreated=False, left=[], error=error
    )
