"""The node's own kernel objects: forwarding, and the addresses that the host answers for.

Each object is applied by itself, so that one that fails costs no other, and one family never costs the other.
An object that fails is a condition of the node if a network needs its family. A host that lacks IPv6 is no
failure on its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from ...journal import JournalError
from ...kernel import Conflict, KernelError, Plan, Route, Sysctl
from ...kernel.errors import DeadlineExceeded, QueueFull, Stopped
from ...networks.host import Host
from ...ops.health.kernel import forwarding_off
from ...ops.node.own_addresses import ADDRESSES, address_missing, is_local
from ..conditions import Condition
from ..node import Node

log = logging.getLogger(__name__)

FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}

# The request was not done for want of time; the next tick tries again.
_LATER = (QueueFull, DeadlineExceeded, Stopped)


class OwnObject(Struct, frozen=True):
    family: int
    object: Sysctl | Route

    @property
    def key(self) -> str:
        return self.object.label


def own_objects(host: Host) -> list[OwnObject]:
    """Those of the families that this kernel has."""
    families = (4, 6) if host.ipv6 else (4,)
    return [
        OwnObject(family, it)
        for family in families
        for it in (Sysctl(FORWARDING[family], "1"), ADDRESSES[family])
    ]


async def keep_own_objects(node: Node) -> None:
    """Puts them back whenever they are gone; sets the conditions of those that cannot be made."""
    failed: list[tuple[OwnObject, KernelError]] = []
    wanted = own_objects(node.host)
    for it in wanted:
        try:
            applied = await node.dataplane.apply(Plan((it.object,)))
        except _LATER:
            return
        except KernelError as error:
            if not isinstance(error, Conflict) or not is_local(error.differences):
                failed.append((it, error))
            continue
        if isinstance(it.object, Sysctl) and any(done.change == "made" for done in applied):
            log.info("forwarding was off, and is on again: %s", it.object.label)
    needed = await families_needed(node) if failed else frozenset[int]()
    conditions = {it.key: _condition(it, error) for it, error in failed if it.family in needed}
    for key in own_keys():
        if key in conditions:
            if node.conditions.get(key) != conditions[key]:
                log.warning("%s", conditions[key].finding.text)
            node.conditions[key] = conditions[key]
        else:
            node.conditions.pop(key, None)


def own_keys() -> Iterator[str]:
    return (it.key for it in own_objects(Host()))


async def families_needed(node: Node) -> frozenset[int]:
    """The families of the pools of this node's networks, and of the addresses that attachments hold."""
    pools = await asyncio.to_thread(node.networks.pools)
    families: set[int] = {it.pool.family for it in pools}
    with suppress(JournalError):
        held = await node.journal.ask(lambda ledger: ledger.count_held())
        families |= {family for family, count in zip((4, 6), held, strict=True) if count}
    return frozenset(families)


def _condition(it: OwnObject, error: KernelError) -> Condition:
    if isinstance(it.object, Sysctl):
        off = forwarding_off(it.object.key.replace("/", "."), why=str(error))
        return Condition(off, it.family, blocks=True)
    return Condition(address_missing(it.family, str(error)), it.family)
