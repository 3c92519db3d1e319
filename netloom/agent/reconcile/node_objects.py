"""The node's own kernel objects, which modes need: forwarding, and the gateway addresses of the host.

Switching forwarding on would cost the host its own default route, because a router ignores router
advertisements; `keep_router_advertisements` prevents that.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import suppress

from ...journal import JournalError
from ...kernel import Conflict, KernelError, Namespace, Plan, Sysctl
from ...kernel.errors import KernelTimeout, QueueFull, Stopped
from ...networks.host import FORWARDING, Host
from ...networks.modes import known_modes
from ...networks.modes.base import NodeObject
from ...networks.names import PREFIX
from ...ops.findings.kernel import ADDRESSES, address_missing, forwarding_off, is_local, object_missing
from ..conditions import Condition
from ..node import Node

_CONF = "/proc/sys/net/ipv6/conf"


def keep_router_advertisements(host: Namespace) -> list[str]:
    """Makes links that accept router advertisements accept them while forwarding, too (accept_ra=2).

    Must be called before forwarding is switched on. Returns the names of the changed links.
    """
    changed = []
    with host.entered(), suppress(FileNotFoundError):
        for name in sorted(set(os.listdir(_CONF)) - {"all", "default", "lo"}):
            if name.startswith(PREFIX):
                continue
            if _read(name, "accept_ra") == "1" and _read(name, "forwarding") == "0":
                with suppress(OSError), open(f"{_CONF}/{name}/accept_ra", "w") as file:
                    file.write("2")
                    changed.append(name)
    return changed


def _read(name: str, setting: str) -> str:
    try:
        with open(f"{_CONF}/{name}/{setting}") as file:
            return file.read().strip()
    except OSError:  # the link was deleted meanwhile
        return ""


log = logging.getLogger(__name__)

# The dataplane was busy; the next tick tries again.
_LATER = (QueueFull, KernelTimeout, Stopped)


def own_objects(host: Host) -> list[NodeObject]:
    """Returns the objects of all modes, without duplicates."""
    return list(dict.fromkeys(it for mode in known_modes() for it in mode.node_objects(host)))


async def keep_own_objects(node: Node) -> None:
    """Puts back missing objects, and sets conditions for those that cannot be created."""
    failed: list[tuple[NodeObject, KernelError]] = []
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
        if (
            isinstance(it.object, Sysctl)
            and it.object.key in FORWARDING.values()
            and any(done.change == "made" for done in applied)
        ):
            log.info("forwarding was off; switched it on again: %s", it.object.label)
    needed = await families_needed(node) if failed else frozenset[int]()
    conditions = {it.key: _condition(it, error) for it, error in failed if it.family in needed}
    for key in own_keys():
        if key in conditions:
            if node.conditions.set(key, conditions[key]):
                log.warning("%s", conditions[key].finding.text)
        else:
            node.conditions.clear(key)


def own_keys() -> Iterator[str]:
    return (it.key for it in own_objects(Host()))


async def families_needed(node: Node) -> frozenset[int]:
    """Returns the families of this node's pools and of its attachments' addresses."""
    pools = await asyncio.to_thread(node.networks.pools)
    families: set[int] = {it.pool.family for it in pools}
    with suppress(JournalError):
        held = await node.journal.ask(lambda ledger: ledger.count_held())
        families |= {family for family, count in zip((4, 6), held, strict=True) if count}
    return frozenset(families)


def _condition(it: NodeObject, error: KernelError) -> Condition:
    if it.object == ADDRESSES[it.family]:
        return Condition(address_missing(it.family, str(error)), it.family)
    if isinstance(it.object, Sysctl) and it.object.key in FORWARDING.values():
        off = forwarding_off(it.object.key.replace("/", "."), why=str(error))
        return Condition(off, it.family, blocks=True)
    return Condition(object_missing(it.key, str(error)), it.family, blocks=True)
