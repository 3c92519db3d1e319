"""Puts back missing objects of attachments: links, addresses, routes, nft elements.

Kernel events lead to an immediate check; a slow sweep finds what events missed. The node's table is compared
whenever another program changes rules, because one command flushes all tables of a machine, and at every
tick. An object that exists but differs was changed on purpose, and is kept: CHECK reports it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ...failpoints import failpoint
from ...journal import Attachment, Ledger
from ...kernel import KernelError, Namespace, Plan
from ...kernel.events import SMALLEST, Events, EventsLost, KernelEvent
from ...kernel.netlink import link, route
from ...kernel.objects.route import PROTOCOL
from ...networks import names, table
from ...networks.attachment import readable_plan
from ...ops.findings import attachments
from ...ops.node import table_contents as contents
from ...ops.node.namespaces import is_another, leads_there, namespace_of, show_life
from ..host_view import ask_kernel
from ..node import Node
from ..server.caller import about
from ..verbs.errors import explained
from ..verbs.gc import Collector
from . import queued_dels
from .network_keeper import NetworkKeeper, check_clashes
from .node_objects import keep_own_objects
from .recovery import finish, forget_rested
from .repair import judge, put_back

log = logging.getLogger(__name__)

# Checking namespaces costs a system call per attachment.
_COLLECT_EVERY = 10
# For metrics; a command that asks for findings gets current ones.
_FIREWALLS_EVERY = 10
# Finding addresses that rested for a day reads all resting ones.
_FORGET_EVERY = 3600
# In seconds: it reads all pages of the journal. Commands and probes do it sooner.
_PROVE_EVERY = 60


async def tick(node: Node) -> None:
    """Does the periodic work until it is cancelled. A step that fails is logged; the others still run."""
    collector, reconciler, keeper = Collector(node), Reconciler(node), NetworkKeeper(node)
    number = 0
    while True:
        await asyncio.sleep(node.settings.tick)
        number += 1
        node.begin_tick()
        node.journal_keeper.check()
        show_life(node.settings.socket)
        work: list[Callable[[], Awaitable[object]]] = [
            lambda: queued_dels.replay(node),
            lambda: finish(node),
            node.host_view.refresh,
            lambda: keep_own_objects(node),
            lambda: check_clashes(node),
            lambda: node.journal_keeper.prove(_PROVE_EVERY),
            reconciler.check_table,
            reconciler.check_recent,
            reconciler.sweep,
            keeper.round,
        ]
        if number % _COLLECT_EVERY == 0 or node.settings.grace < _COLLECT_EVERY:
            work.append(collector.round)
        if number % _FIREWALLS_EVERY == 0:
            work.append(node.firewalls.refresh)
        if number % _COLLECT_EVERY == 0 and node.host.orphans:
            work.append(node.orphans.keep_guarded)
        if number % _FORGET_EVERY == 0:
            work.append(lambda: forget_rested(node))
        for step in work:
            try:
                await step()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("a step of the periodic work failed")


async def keep_running(what: str, work: Callable[[], Awaitable[None]]) -> None:
    """Runs work again whenever it ends or fails, until cancelled."""
    while True:
        with suppress(OSError):
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s failed; trying again", what)
        await asyncio.sleep(1)


# Other programs, as a cluster's proxy, may change rules a thousand times a second, and comparing the table
# takes a millisecond. So it is compared at once, and then not before this time, in seconds.
_SPACING = 0.1
# A DEL causes events, too. After this time its row is deleted.
_PAUSE = 0.2
_AT_A_TIME = 20


class Reconciler:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._links: set[str] = set()
        self._ips: set[bytes] = set()
        self._all = False
        self._last = 0

    async def listen(self) -> None:
        """Repairs attachments at kernel events until it is cancelled."""
        with Namespace.own() as host:
            events = await Events.open_async(host, ("link", "route"), gone_only=True)
        try:
            async for event in events:
                if self._take(event):
                    await asyncio.sleep(_PAUSE)
                    await self._repair_concerned()
        finally:
            events.close()

    async def guard(self) -> None:
        """Restores the table if another program's change of rules broke it, until cancelled.

        The agent's own changes of elements cause no event here. The buffer is small: an overflow counts as
        one event.
        """
        port = await self._node.dataplane.netfilter_port()
        with Namespace.own() as host:
            events = await Events.open_async(host, ("ruleset",), SMALLEST, ignoring=(port,))
        try:
            await self._keep_table()
            async for _ in events:
                for _ in events.read(0):
                    pass
                self._node.tally.count("rulesets")
                laid_down = await self._keep_table()
                await asyncio.sleep(_SPACING)
                if laid_down:
                    # Strays of ADDs and DELs in progress; the next ticks remove those of slower ones.
                    await self._remove_strays()
        finally:
            events.close()

    def _take(self, event: KernelEvent | EventsLost) -> bool:
        if isinstance(event, EventsLost):
            self._all = True
            return True
        value = event.value
        if isinstance(value, link.Link):
            host_link = names.host_link_of(value.name or "")
            if host_link is not None:
                self._links.add(host_link)
            return host_link is not None
        if isinstance(value, route.RouteRecord) and value.protocol == PROTOCOL and value.destination:
            self._ips.add(value.destination)
            return True
        return False

    async def _repair_concerned(self) -> None:
        links, ips, everything = self._links, self._ips, self._all
        self._links, self._ips, self._all = set(), set(), False
        orphans = self._node.host.orphans
        if orphans and (everything or any(link in links or ips & its for link, its in orphans.items())):
            await self._node.orphans.refresh()

        def concerned(ledger: Ledger) -> set[int]:
            if everything:
                return {place.id for place in ledger.places()}
            found = {place.id for name in links if (place := ledger.place(name)) is not None}
            scopes = ledger.scopes() if ips else ()
            held = (ledger.holder(scope, ip) for ip in ips for scope in scopes)
            return found.union(number for number in held if number is not None)

        for number in sorted(await self._node.journal.ask(concerned)):
            await self.repair(number)

    async def sweep(self) -> None:
        """Repairs the next few attachments, in turn. Called at every tick."""
        node = self._node

        def next_few(ledger: Ledger) -> list[int]:
            total = sum(ledger.count().values())
            few = min(_AT_A_TIME, math.ceil(total * node.settings.tick / node.settings.sweep))
            return ledger.numbers_after(self._last, few)

        await self._forget_departed()
        numbers = await node.journal.ask(next_few)
        self._last = numbers[-1] if numbers else 0
        for number in numbers:
            await self.repair(number)

    async def _forget_departed(self) -> None:
        """Clears findings of deleted attachments."""
        node = self._node
        asked = node.attachments.with_findings()
        if asked:
            gone = await node.journal.ask(lambda ledger: [it for it in asked if ledger.by_id(it) is None])
            for it in gone:
                node.attachments.set_findings(it, ())

    async def repair(self, number: int) -> None:
        node = self._node
        found = await node.journal.ask(lambda ledger: ledger.by_id(number))
        if found is None or found.state != "committed" or node.locks.is_busy(found.key):
            return
        if node.attachments.has_departed(found.key):
            return
        async with node.locks.of(found.key):
            current = await node.journal.ask(lambda ledger: ledger.by_id(number))
            if current is not None and current.state == "committed" and leads_there(current):
                await self._repair(current)

    async def _repair(self, attachment: Attachment) -> None:
        node = self._node
        namespace = namespace_of(attachment)
        if namespace is None:
            return
        plan = readable_plan(attachment)
        if plan is None:
            namespace.close()
            return
        try:
            if await is_another(namespace, attachment):
                node.attachments.set_replaced(attachment.id, True)
                return
            node.attachments.set_replaced(attachment.id, False)
            repaired = await put_back(node, attachment, plan, namespace)
        except KernelError as error:
            node.tally.count("unrepaired")
            key = attachment.key
            node.attachments.set_findings(attachment.id, [attachments.unrepaired(key, str(error))])
            failure = explained(error, key)
            node.events.record("REPAIR", "cannot put back missing objects", attachment, error=failure)
            log.warning("cannot put back missing objects of %s: %s", key, error, extra=about(key))
            return
        finally:
            namespace.close()
        await judge(node, attachment, plan, repaired.left)
        if repaired.put_back:
            failpoint("repair.done")
            node.tally.count("repaired")
            node.events.record("REPAIR", f"put back: {', '.join(repaired.put_back)}", attachment)
            node.tally.repaired(plan, repaired.put_back)
            key, again = attachment.key, ", ".join(repaired.put_back)
            log.warning("put back missing objects of %s: %s", key, again, extra=about(key))

    async def check_recent(self) -> None:
        """Checks attachments again soon after ADD, because a later plugin may change the link."""
        for number in self._node.attachments.take_recent(_AT_A_TIME):
            await self.repair(number)

    async def check_table(self) -> None:
        """Restores the table if another program changed it, else removes strays."""
        if await self._keep_table() is False:
            await self._remove_strays()
            await self._forget_dropped()

    async def _keep_table(self) -> bool | None:
        """Returns whether the table had to be written; None if that failed."""
        node = self._node
        try:
            laid_down = await node.table.keep()
        except KernelError as error:
            failure = f"the nft table {table.TABLE.name} cannot be written: {error}"
            if node.conditions.fail("table", failure):
                log.error("%s", failure)
            return None
        node.conditions.recover("table")
        return laid_down

    async def _forget_dropped(self) -> None:
        """Removes drop counters of deleted links, so that a new link of the same name begins at 0."""
        if await ask_kernel(contents.dropped_of_gone):
            await self._node.dataplane.remove_found(lambda host: Plan(tuple(contents.dropped_of_gone(host))))

    async def _remove_strays(self) -> None:
        node = self._node
        if node.table.take_stray_round():
            await node.orphans.refresh()
            await node.table.remove_strays()
