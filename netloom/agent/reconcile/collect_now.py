"""The question `collect`: what is left over goes at once, without the collector's grace."""

from __future__ import annotations

import asyncio

import msgspec

from ...journal import boottime
from ...kernel import Ifb, Namespace, Plan
from ...kernel.objects.link import link_names
from ...ops.node.leaks import Collected, Leftover, leftovers, stray_queues
from ..node import Node
from ..server.timer import Course
from ..verbs.delete import delete
from . import queued_dels as intents
from .recovery import finish, forget_rested

# Between the two looks that an attachment must be found dead in.
_PAUSE = 0.25


async def collect_now(node: Node, _: bytes) -> bytes:
    before = await _look(node)
    await intents.replay(node)
    await finish(node)
    await asyncio.sleep(_PAUSE)
    again = await _look(node)
    await _release(node, _dead(before) & _dead(again))
    await _remove_strays(node)
    await node.learn_orphans()
    await forget_rested(node)
    after = await _look(node)
    there = {(it.kind, it.subject) for it in after}
    gone = [it for it in [*before, *again] if not it.kept and (it.kind, it.subject) not in there]
    return msgspec.json.encode(Collected(list(dict.fromkeys(gone)), after))


def _dead(found: list[Leftover]) -> set[str]:
    return {it.subject for it in found if it.kind == "attachment" and not it.kept}


async def _look(node: Node) -> list[Leftover]:
    directory, busy = node.settings.intents, node.turns.is_busy

    def look(host: Namespace) -> list[Leftover]:
        return node.journal.survey(lambda ledger: leftovers(ledger, host, directory, node.boot_id, busy))

    return await node.look(look)


async def _release(node: Node, dead: set[str]) -> None:
    """Those that are older than the question, and that nobody is at work on."""
    now = boottime()
    for place in await node.journal.ask(lambda ledger: ledger.places()):
        if str(place.key) not in dead or node.turns.is_busy(place.key):
            continue
        course = Course()
        if await delete(node, place.key, None, course, sent_before=now):
            node.counters["leaked"] += 1
            node.tell("RELEASE", f"an operator asked for it; {place.netns} is gone", course.attachment)


async def _remove_strays(node: Node) -> None:
    elements, chains = await node.strays()
    if chains:
        await node.lay_down()  # without them, and without the elements
    elif elements:
        await node.remove_strays()
    if (await node.look(lambda host: _queues(node, host))).objects:
        await node.dataplane.remove_found(lambda host: _queues(node, host))


def _queues(node: Node, host: Namespace) -> Plan:
    """Those that are strays when their turn has come."""
    links = link_names(host)
    return Plan(tuple(map(Ifb, node.journal.survey(lambda ledger: stray_queues(ledger, links)))))
