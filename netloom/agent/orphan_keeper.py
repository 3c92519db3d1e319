"""Links of ours that no attachment has: after a journal was lost, containers go on using them.

Their addresses and host ports stay reserved, and what they have in the nft table is kept, whatever becomes of
the table.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from ..journal import Journal
from ..ops.node import orphans as orphan_table
from ..ops.node.orphans import OrphanTable, orphans_at
from .conditions import EventLog
from .host_view import HostView, ask_kernel
from .table_keeper import TableKeeper

log = logging.getLogger(__name__)


class OrphanKeeper:
    def __init__(
        self,
        directory: str,
        boot_id: str,
        journal: Journal,
        host: HostView,
        table: TableKeeper,
        events: EventLog,
    ) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._journal = journal
        self._host = host
        self._table = table
        self._events = events
        # What they have in the nft table: as it is known, and as it was last written.
        self._known: OrphanTable = {}
        self._written: OrphanTable = {}
        # Something that one of them had is not in the table.
        self._lacks = False
        self._is_unwritten = False
        self._learning = asyncio.Lock()

    @property
    def contents(self) -> OrphanTable:
        """What they have in the nft table."""
        return self._known

    async def recall(self) -> None:
        """What an agent before this one has kept of them."""
        kept = await asyncio.to_thread(orphan_table.read, self._directory, self._boot_id)
        self._known = self._written = kept

    async def learn(self, known: Mapping[str, frozenset[bytes]] | None = None) -> bool:
        """Looks for orphans, once for all callers that know the same. Whether the known were others."""
        async with self._learning:
            before = self._host.current.orphans
            if known is None or before == known:
                found = await ask_kernel(lambda host: orphans_at(host, self._journal.survey))
                if found or self._written:
                    await self._keep_contents(found)
                if self._host.current.orphans.keys() - found.keys():
                    self._table.look_for_strays()  # what they had in the table goes, too
                self._host.set_orphans(found, orphan_table.ports_of(self._known) if found else ())
        return self._host.current.orphans != known

    async def keep_guarded(self) -> None:
        """Looks for orphans, and lays the table down if it lacks something that one of them had."""
        await self.learn()
        if self._known and self._lacks:
            await self._table.lay_down()
            self._events.record(
                "TABLE", "elements of orphaned links were missing in the nft table, and are back"
            )

    def forget(self, link: str) -> None:
        """It is gone, or an attachment has it now: no caller has to wait for the next look."""
        orphans = self._host.current.orphans
        if link in orphans:
            self._host.set_orphans({name: ips for name, ips in orphans.items() if name != link})
            self._known = {name: it for name, it in self._known.items() if name != link}

    async def _keep_contents(self, orphans: Mapping[str, frozenset[bytes]]) -> None:
        before = self._known
        found, self._lacks = await ask_kernel(lambda host: orphan_table.snapshot_of(host, orphans, before))
        self._known = found
        if found == self._written:
            return
        try:
            await asyncio.to_thread(orphan_table.write, self._directory, self._boot_id, found)
            self._written = found
            self._is_unwritten = False
        except OSError as cause:
            if not self._is_unwritten:
                log.error("what orphaned links have in the nft table is in memory only: %s", cause)
            self._is_unwritten = True
