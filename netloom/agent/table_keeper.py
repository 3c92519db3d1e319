"""Keeps the node's nft table: writes it, checks it, and removes strays, which belong to no attachment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..failpoints import failpoint
from ..journal import Journal
from ..kernel import Namespace, NftElement, Plan, Scope
from ..kernel.dataplane import Dataplane, DataplaneRequest
from ..kernel.netlink.nft_elements import read_elements
from ..kernel.objects.link import link_names
from ..networks import table
from ..networks import table as owner
from ..networks.table import Owner
from ..ops.node import orphans
from ..ops.node import table_contents as contents
from ..ops.node.orphans import OrphanTable
from ..ops.node.table_contents import Content, mark_at
from .conditions import EventLog
from .host_view import ask_kernel
from .metrics.tally import Tally
from .reconcile.flows import Flows

log = logging.getLogger(__name__)

_STRAY_ROUNDS = 3

# For each number that the journal counts, the sets that must have as many elements together.
_COUNTED = ((table.SOURCES[0],), (table.SOURCES[1],), *zip(table.PORTS, table.PORTS_AT, strict=True))


class TableKeeper:
    """`orphaned` returns the elements of orphaned links, which stay in the table."""

    def __init__(
        self,
        state_dir: str,
        journal: Journal,
        dataplane: Dataplane,
        flows: Flows,
        tally: Tally,
        events: EventLog,
        orphaned: Callable[[], OrphanTable],
    ) -> None:
        # `own` sets the identity, which the journal has.
        self._owner = Owner(state_dir, "")
        self._journal = journal
        self._dataplane = dataplane
        self._flows = flows
        self._tally = tally
        self._events = events
        self._orphaned = orphaned
        self._stray_rounds = 0
        self._laying = asyncio.Lock()

    def own(self, identity: str) -> None:
        """Sets the journal's identity, with which the table is marked from now on."""
        self._owner = Owner(self._owner.state_dir, identity)

    async def stands(self) -> bool:
        """Whether chains, rules and flags of the table are as written. Elements are not checked."""
        return await ask_kernel(lambda host: not table.TABLE.check(Scope(host)))

    async def is_complete(self) -> bool:
        """Whether the table has this version, this journal's mark, and an element per address and port."""
        of = table.TABLE

        def counted(host: Namespace) -> list[int] | None:
            if of.check(Scope(host)) or mark_at(host) != self._owner:
                return None
            return [
                sum(len(read_elements(host.netfilter, of.family, of.name, it) or ()) for it in sets)
                for sets in _COUNTED
            ]

        held = await self._journal.ask(lambda ledger: [*ledger.count_held(), *ledger.count_ports()])
        return await ask_kernel(counted) == held

    async def lay_down(self) -> None:
        """Writes the table with all elements in one transaction: no packet meets an incomplete table.

        Orphaned links keep their elements, because their containers still work. A DEL in progress may leave
        strays, which later ticks remove.
        """
        await self.laying()
        self.schedule_stray_rounds()

    def laying(self) -> DataplaneRequest[None]:
        def every(host: Namespace) -> list[Content]:
            planned = self._planned()
            known = {it.key[0] for it in planned if isinstance(it, NftElement) and it.set in table.SOURCES}
            orphaned = orphans.to_lay_down(host, known, planned, self._orphaned())
            return [*planned, *orphaned, owner.owner_chain(self._owner)]

        return self._dataplane.lay_down(table.TABLE, every, timeout=30)

    async def keep(self) -> bool:
        """Writes the table if it is not as written, once for all callers. Returns whether that was needed."""
        async with self._laying:
            if await self.stands():
                return False
            failpoint("repair.found")
            await self.lay_down()
        self._tally.count("tables")
        self._events.record(
            "TABLE", f"the nft table {table.TABLE.name} was incomplete; the agent restored it"
        )
        await self._flows.add_all(self._journal)
        log.warning("the nft table %s was incomplete; restored it with all elements", table.TABLE.name)
        return True

    def _planned(self) -> list[Content]:
        return self._journal.survey(
            lambda ledger: [it for plan in ledger.plans() for it in contents.of_plan(plan)]
        )

    # Strays: elements and chains that belong to no attachment.

    def schedule_stray_rounds(self, times: int = _STRAY_ROUNDS) -> None:
        """Makes the next ticks remove strays. Every DEL in progress now has ended before the last of them."""
        self._stray_rounds = max(self._stray_rounds, times)

    def take_stray_round(self) -> bool:
        """Whether this tick has to remove strays; counts the tick."""
        if not self._stray_rounds:
            return False
        self._stray_rounds -= 1
        return True

    async def remove_strays(self) -> None:
        elements, chains = await ask_kernel(self._strays)
        if chains:
            await self.lay_down()  # leaves out stray chains and elements
        elif elements:
            # Determined again at the time of the removal: an ADD may have got the same element meanwhile.
            await self._dataplane.remove_found(lambda host: Plan(tuple(self._strays(host)[0])), timeout=30)

    def _strays(self, host: Namespace) -> tuple[list[NftElement], list[str]]:
        """Reads the kernel before the journal: an attachment is in the journal before it is in the table."""
        there, chains = contents.there(host), contents.chains_there(host)
        links = set(link_names(host))
        planned = self._planned()
        elements = contents.strays(there, links, planned)
        return elements, contents.unused(chains, set(there) - set(elements), planned)
