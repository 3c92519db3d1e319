"""Makes one attachment as planned again: for the agent by itself, and for an operator who asks for more.

By itself, the agent puts back what is missing, and leaves what somebody has changed. At an operator's word it
sets that right, too; and if even that is not enough, and the operator says so, the link is made anew, which
costs the container its connections.
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
from ...ops.health import attachments
from ...ops.node.host import diverted
from ..host_view import ask_kernel
from ..node import Node
from ..server.caller import about

log = logging.getLogger(__name__)

# The field of a difference: a container may give its own end another MAC.
PEERS_MAC = "peer's mac"


class RepairOutcome(Struct, frozen=True, kw_only=True):
    """What was done, by labels of objects, and what is still not as planned."""

    put_back: Sequence[str] = ()
    set_right: Sequence[str] = ()
    recreated: bool = False
    left: Sequence[Difference] = ()
    # Why something could not be set right, in the kernel's words.
    said: Sequence[str] = ()


async def put_back(node: Node, attachment: Attachment, plan: Plan, namespace: Namespace) -> RepairOutcome:
    """What the agent does by itself. The caller holds the attachment's lock."""
    repaired = await node.dataplane.repair(plan, namespace)
    chains = {it.label for it in plan.objects if isinstance(it, NftChain)}
    if any(it.object in chains for it in repaired.left):
        # Others lead to it, too, and who changes a rule of the node's table changes it for them.
        await _lay_down(node, attachment, "a chain was changed")
        name, subject = table.TABLE.name, about(attachment.key)
        log.warning("a chain of the nft table %s was changed; restored it", name, extra=subject)
    mac = next((it.found for it in repaired.left if it.field == PEERS_MAC), None)
    if mac is not None:
        await _adopt(node, attachment, plan, mac, namespace)
    return RepairOutcome(put_back=repaired.put_back, left=repaired.left)


async def judge(node: Node, attachment: Attachment, plan: Plan, left: Sequence[Difference]) -> None:
    """What others have changed is left as it is, and named; so is what leads its packets away.

    Chains of the node's table were laid down again, and another MAC of the container's end is adopted.
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
    """What an operator has asked for. The caller holds the attachment's lock."""
    first = await put_back(node, attachment, plan, namespace)
    in_table = {it.label for it in plan.objects if isinstance(it, NftChain | NftElement)}
    of_table = sorted({it.object for it in first.left if it.object in in_table})
    if of_table:
        await _lay_down(node, attachment, "an operator asked for it")
    # Another MAC may have been adopted meanwhile, and is in the plan by now.
    plan = await _recorded(node, attachment, plan)
    reset = await node.dataplane.reset(plan, namespace)
    # A link whose MAC was set has lost its neighbours, an address its routes.
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
        said=reset.failed if left else (),
    )


async def _made_anew(
    node: Node, attachment: Attachment, plan: Plan, namespace: Namespace
) -> tuple[list[Difference], bool]:
    """Whatever of it is ours goes, and comes again. What is not stays, and then the rest comes back."""
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
    """A plugin behind ours, or the operator, gave the container another MAC: the host has to know it."""
    try:
        changed = mode_named(attachment.mode).adopt_mac(plan, mac)
    except UnknownMode as error:
        log.warning("%s has the MAC %s, but its plan cannot be updated: %s", attachment.key, mac, error)
        return
    old = tuple(it for it in plan.objects if isinstance(it, Neighbour) and it.on == "host")
    # In this order: one that is missing is put back by whoever comes next, one that differs is not.
    await node.dataplane.remove(Plan(old))
    failpoint("repair.forgotten")
    await node.journal.change(lambda ledger: ledger.set_plan(attachment.id, changed.encode()))
    failpoint("repair.adopted")
    await node.dataplane.repair(changed, namespace)
    log.info("%s now has the MAC %s", attachment.key, mac, extra=about(attachment.key))
