"""Orphans: links of netloom without an attachment. Containers still use them after a journal was lost.

Their addresses and host ports stay reserved, and the agent keeps their elements in the nft table, even if the
table is deleted.
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
        # Their elements in the nft table: in memory, and as last written to the disk.
        self._known: OrphanTable = {}
        self._written: OrphanTable = {}
        # Whether the table lacks one of these elements.
        self._lacks = False
        self._is_unwritten = False
        self._refreshing = asyncio.Lock()

    @property
    def contents(self) -> OrphanTable:
        """The orphans' elements in the nft table."""
        return self._known

    async def recall(self) -> None:
        """Reads the elements that an earlier agent stored."""
        kept = await asyncio.to_thread(orphan_table.read, self._directory, self._boot_id)
        self._known = self._written = kept

    async def refresh(self, known: Mapping[str, frozenset[bytes]] | None = None) -> bool:
        """Finds orphans, once for all callers with equal `known`. Returns whether they differ from it."""
        async with self._refreshing:
            before = self._host.current.orphans
            if known is None or before == known:
                found = await ask_kernel(lambda host: orphans_at(host, self._journal.survey))
                if found or self._written:
                    await self._keep_contents(found)
                if self._host.current.orphans.keys() - found.keys():
                    self._table.schedule_stray_rounds()  # their elements in the table must be removed, too
                self._host.set_orphans(found, orphan_table.ports_of(self._known) if found else ())
        return self._host.current.orphans != known

    async def keep_guarded(self) -> None:
        """Finds orphans, and restores the table if it lacks an element of one of them."""
        await self.refresh()
        if self._known and self._lacks:
            await self._table.lay_down()
            self._events.record(
                "TABLE", "elements of orphaned links were missing in the nft table; the agent restored them"
            )

    def forget(self, link: str) -> None:
        """Removes a link that was deleted or has an attachment now, without a new search."""
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
                log.error(
                    "cannot store the nft elements of orphaned links; they are in memory only: %s", cause
                )
            self._is_unwritten = True
