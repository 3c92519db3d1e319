"""Repairs one attachment.

By itself, the agent puts back missing objects and keeps changed ones. At an operator's request it also
corrects changed objects; if that fails and the operator asked for it, it recreates the link, which ends the
container's connections.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import Struct

from ...failpoints import failpoint
from ...journal import Attachment
from ...kernel import Difference, KernelError, Namespace, Neighbour, NftChain, NftElement, Plan
from ...networks import table
from ...networks.attachment import planned_addresses
from ...networks.modes import UnknownMode, mode_named
from ...ops.findings import attachments
from ...ops.node.host import diverted
from ..host_view import ask_kernel
from ..node import Node
from ..server.caller import about

log = logging.getLogger(__name__)

# The field of a difference that is adopted: a container may change the MAC of its end.
PEERS_MAC = "peer's mac"


class RepairOutcome(Struct, frozen=True, kw_only=True):
    """The labels of repaired objects, and the remaining differences."""

    put_back: Sequence[str] = ()
    set_right: Sequence[str] = ()
    recreated: bool = False
    left: Sequence[Difference] = ()
    # The kernel's errors for objects that could not be corrected.
    errors: Sequence[str] = ()


async def put_back(node: Node, attachment: Attachment, plan: Plan, namespace: Namespace) -> RepairOutcome:
    """Puts back missing objects. The caller holds the attachment's lock."""
    repaired = await node.dataplane.repair(plan, namespace)
    chains = {it.label for it in plan.objects if isinstance(it, NftChain)}
    if any(it.object in chains for it in repaired.left):
        # Attachments share chains, so write the whole table.
        await _lay_down(node, attachment, "a chain was changed")
        name, subject = table.TABLE.name, about(attachment.key)
        log.warning("a chain of the nft table %s was changed; restored it", name, extra=subject)
    mac = next((it.found for it in repaired.left if it.field == PEERS_MAC), None)
    if mac is not None:
        await _adopt(node, attachment, plan, mac, namespace)
    return RepairOutcome(put_back=repaired.put_back, left=repaired.left)


async def judge(node: Node, attachment: Attachment, plan: Plan, left: Sequence[Difference]) -> None:
    """Sets findings for changed objects, or for routes and rules that divert the attachment's packets.

    It ignores chains, which were written again, and the MAC of the container's end, which was adopted.
    """
    key = attachment.key
    chains = {it.label for it in plan.objects if isinstance(it, NftChain)}
    different = [it for it in left if it.object not in chains and it.field != PEERS_MAC]
    if different:
        found = [attachments.changed(key, plan, different)]
    else:
        ips = planned_addresses(attachment, plan) or ()
        led_away = await ask_kernel(lambda host: list(diverted(host, attachment.host_link, ips)))
        found = [attachments.diverted(key, it) for it in led_away]
    if node.attachments.set_findings(attachment.id, found):
        for it in found:
            log.warning("%s", it.text, extra=about(key))


async def set_right(
    node: Node, attachment: Attachment, plan: Plan, namespace: Namespace, *, recreate: bool
) -> RepairOutcome:
    """Repairs at an operator's request. The caller holds the attachment's lock."""
    first = await put_back(node, attachment, plan, namespace)
    in_table = {it.label for it in plan.objects if isinstance(it, NftChain | NftElement)}
    of_table = sorted({it.object for it in first.left if it.object in in_table})
    if of_table:
        await _lay_down(node, attachment, "an operator asked for it")
    # The plan may have an adopted MAC now.
    plan = await _recorded(node, attachment, plan)
    reset = await node.dataplane.reset(plan, namespace)
    # Setting a MAC deletes the link's neighbours, and setting an address deletes routes.
    again = await node.dataplane.repair(plan, namespace)
    left = await node.dataplane.check(plan, namespace)
    recreated = False
    if left and recreate:
        left, recreated = await _made_anew(node, attachment, plan, namespace)
    still = {it.object for it in left}
    return RepairOutcome(
        put_back=[it for it in dict.fromkeys([*first.put_back, *again.put_back]) if it not in still],
        set_right=[it for it in dict.fromkeys([*of_table, *reset.set_right]) if it not in still],
        recreated=recreated,
        left=left,
        errors=reset.failed if left else (),
    )


async def _made_anew(
    node: Node, attachment: Attachment, plan: Plan, namespace: Namespace
) -> tuple[list[Difference], bool]:
    """Removes and applies the plan. If other programs' objects prevent that, repairs what is possible."""
    try:
        await node.dataplane.remove(plan, namespace)
    except KernelError as error:
        key = attachment.key
        log.warning("cannot remove all objects of %s: %s", key, error, extra=about(key))
    recreated = True
    try:
        await node.dataplane.apply(plan, namespace)
    except KernelError as error:
        key = attachment.key
        log.warning("cannot recreate %s: %s", key, error, extra=about(key))
        recreated = False
        await node.dataplane.repair(plan, namespace)
    return await node.dataplane.check(plan, namespace), recreated


async def _recorded(node: Node, attachment: Attachment, plan: Plan) -> Plan:
    found = await node.journal.ask(lambda ledger: ledger.by_id(attachment.id))
    return plan if found is None else Plan.decode(found.plan)


async def _lay_down(node: Node, attachment: Attachment, why: str) -> None:
    await node.table.lay_down()
    node.tally.count("tables")
    node.events.record("TABLE", f"{why}; the agent wrote the nft table again", attachment)


async def _adopt(node: Node, attachment: Attachment, plan: Plan, mac: str, namespace: Namespace) -> None:
    """Adopts another MAC of the container's end, set by a plugin or an operator, in plan and kernel."""
    try:
        changed = mode_named(attachment.mode).adopt_mac(plan, mac)
    except UnknownMode as error:
        log.warning("%s has the MAC %s, but its plan cannot be updated: %s", attachment.key, mac, error)
        return
    old = tuple(it for it in plan.objects if isinstance(it, Neighbour) and it.on == "host")
    # In this order: if the agent ends in between, the next repair puts back a missing entry, not a changed
    # one.
    await node.dataplane.remove(Plan(old))
    failpoint("repair.forgotten")
    await node.journal.change(lambda ledger: ledger.set_plan(attachment.id, changed.encode()))
    failpoint("repair.adopted")
    await node.dataplane.repair(changed, namespace)
    log.info("%s now has the MAC %s", attachment.key, mac, extra=about(attachment.key))
