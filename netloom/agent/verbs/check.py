"""CHECK: compares the recorded plan with the kernel, and the recorded result with prevResult."""

from __future__ import annotations

from msgspec.structs import replace

from ...cni import AttachmentKey, InvalidConfig, InvalidNetns, Result, UnknownContainer, decode_result
from ...cni.skel import Request
from ...kernel import Neighbour, Plan, Veth
from ..node import Node
from ..server.record import Timer
from .errors import NotAsPlanned

# The reference plugin `tuning`, later in the chain, changes it without changing the result.
_LEFT_TO_OTHERS = ("peer's mtu",)
# Most differences in an error.
_MOST = 50


async def check(node: Node, request: Request, netns: int | None, timer: Timer) -> None:
    key = AttachmentKey(request.network, request.container_id, request.ifname)
    if netns is None:
        raise InvalidNetns("CHECK needs the container's network namespace")
    before = request.prev_result
    if before is None:
        raise InvalidConfig("CHECK needs prevResult, the result of ADD")
    previous = before.as_version("1.1.0")
    assert isinstance(previous, Result)
    timer.lap("judge")
    async with node.locks.of(key):
        timer.lap("queue")
        found = node.journal.look(lambda ledger: ledger.find(key))
        timer.lap("journal")
        timer.attachment = found
        if found is None or found.state != "committed":
            raise UnknownContainer("not attached", "the journal has no such attachment; repeat ADD")
        recorded = decode_result(found.result)
        assert isinstance(recorded, Result)
        plan = Plan.decode(found.plan)
        differences = _between(recorded, previous)
        found_now = await node.dataplane.check(_with_macs_of(plan, previous), netns)
        differences += [str(it) for it in found_now if it.field not in _LEFT_TO_OTHERS]
        timer.lap("kernel")
    if differences:
        shown = differences[:_MOST]
        shown += [f"and {len(differences) - _MOST} more"] if len(differences) > _MOST else []
        raise NotAsPlanned("the attachment differs from what ADD set up", "; ".join(shown))


def _between(recorded: Result, previous: Result) -> list[str]:
    """Returns what ADD returned and prevResult lacks. Later plugins of the chain may only add to it."""
    names = {it.name for it in previous.interfaces}
    addresses = {it.address for it in previous.ips}
    missing = [
        f"interface {it.name}: not in prevResult" for it in recorded.interfaces if it.name not in names
    ]
    missing += [
        f"address {it.address}: not in prevResult" for it in recorded.ips if it.address not in addresses
    ]
    return missing


def _with_macs_of(plan: Plan, previous: Result) -> Plan:
    """Returns the plan with the MAC of prevResult: a later plugin of the chain may have changed it.

    Setting a MAC deletes the link's neighbours, and the host's entry has the old MAC until the next repair.
    """
    macs = {it.name: it.mac.lower() for it in previous.interfaces if it.mac}
    changed = {
        it.peer: macs[it.peer]
        for it in plan.objects
        if isinstance(it, Veth) and macs.get(it.peer, it.peer_mac) != it.peer_mac
    }
    return Plan(
        tuple(
            replace(it, peer_mac=changed[it.peer]) if isinstance(it, Veth) and it.peer in changed else it
            for it in plan.objects
            if not (isinstance(it, Neighbour) and changed)
        )
    )
