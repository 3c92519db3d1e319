"""The question `repair`: attachments are made as planned again, at an operator's word.

Whoever asks reads the values here, and need not load what an agent is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...api.repair import Answer, Key, Repaired, Wish

if TYPE_CHECKING:
    from ...journal import Attachment
    from ...kernel import Plan
    from ..node import Node
    from .repair import Mended


async def repair(node: Node, body: bytes) -> bytes:
    wish = msgspec.json.decode(body or b"{}", type=Wish)
    table = await node.keep_guarded()
    repaired = [await _repaired(node, key, wish.recreate) for key in wish.keys]
    return msgspec.json.encode(Answer(table, repaired))


async def _repaired(node: Node, key: Key, recreate: bool) -> Repaired:
    from ...cni import AttachmentKey
    from ...journal import JournalError
    from ...kernel import KernelError

    wanted = AttachmentKey(*key)
    try:
        async with node.turns.of(wanted):
            found = await node.journal.ask(lambda ledger: ledger.find(wanted))
            if found is None:
                return _undone(key, "it is not attached")
            if found.state != "committed" or wanted in node.departed:
                return _undone(key, "it is half made or half gone; the agent sees to it by itself")
            return await _of_attachment(node, found, recreate)
    except (KernelError, JournalError) as error:
        return _undone(key, str(error))


async def _of_attachment(node: Node, attachment: Attachment, recreate: bool) -> Repaired:
    from ...networks.attachment import readable_plan
    from ...ops.node.presence import is_another, namespace_of
    from .repair import judge, set_right

    key = attachment.key
    plan = readable_plan(attachment)
    if plan is None:
        return _undone(key, "its plan cannot be read: it can only be deleted")
    namespace = namespace_of(attachment)
    if namespace is None:
        return _undone(key, f"its namespace {attachment.netns} is gone; `netloom gc` releases it")
    try:
        if await is_another(namespace, attachment):
            return _undone(key, f"{attachment.netns} leads to another namespace; `netloom gc` releases it")
        mended = await set_right(node, attachment, plan, namespace, recreate=recreate)
        await judge(node, attachment, plan, mended.left)
    finally:
        namespace.close()
    answer = Repaired(
        attachment=str(key),
        put_back=list(mended.put_back),
        set_right=list(mended.set_right),
        recreated=mended.recreated,
        left=[*map(str, mended.left), *mended.said],
        error="",
    )
    if answer.changed:
        _tell(node, attachment, plan, mended)
    return answer


def _tell(node: Node, attachment: Attachment, plan: Plan, mended: Mended) -> None:
    done = [
        *([f"put back: {', '.join(mended.put_back)}"] if mended.put_back else []),
        *([f"set right: {', '.join(mended.set_right)}"] if mended.set_right else []),
        *(["its link was made anew"] if mended.recreated else []),
    ]
    node.counters["repaired"] += 1
    node.tally.repaired(plan, mended.put_back)
    node.tell("REPAIR", f"an operator asked for it; {'; '.join(done)}", attachment)


def _undone(key: Key, error: str) -> Repaired:
    return Repaired(
        attachment="/".join(key), put_back=[], set_right=[], recreated=False, left=[], error=error
    )
