"""Keeps copies of network files, restores the file that `netloom up` wrote, and finds address conflicts."""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from ...journal import JournalError
from ...journal.search import networks_attached
from ...ops.findings.pools import clashes
from ...ops.node.install import READABLE, put_new, receipt
from ...ops.node.networks import (
    Copy,
    FoundNetworks,
    Missing,
    copies,
    is_sound,
    keep_copies,
    keep_copy,
    missing,
    renewed,
)
from ..conditions import Condition
from ..node import Node

log = logging.getLogger(__name__)

_KEY = "clash "


async def check_clashes(node: Node) -> None:
    """Sets a condition for each address conflict. Called at every tick, after the host was read."""
    host = node.host
    try:
        found = await node.journal.ask(lambda ledger: clashes(ledger, host))
    except JournalError:
        return
    now = {_KEY + it.subject: Condition(it) for it in found}
    for condition in node.conditions.replace(_KEY, now):
        log.warning("%s", condition.finding.text)


# Ticks between full rounds: networks gain and lose attachments without a change of their files.
_EVERY = 10


class NetworkKeeper:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen: FoundNetworks | None = None
        self._rounds = 0
        self._lost: list[Missing] = []
        # The last logged failure, so that it is not logged at every tick.
        self._logged = ""

    async def round(self) -> None:
        """Updates copies and restores files. Called at every tick; reads files only after changes."""
        self._rounds += 1
        restored, failure = await asyncio.to_thread(self._check)
        node = self._node
        for copy in restored:
            node.tally.count("restored")
            details = f"{copy.path} was missing; the agent wrote it again"
            node.events.record("RESTORE", details, network=copy.name)
            log.warning("the file of network %s: %s", copy.name, details)
        if failure and failure != self._logged:
            log.error("%s", failure)
        self._logged = failure

    def _check(self) -> tuple[list[Copy], str]:
        node = self._node
        found = node.networks.found()
        if found is self._seen and not self._lost and self._rounds % _EVERY:
            return [], ""
        self._seen = found
        state_dir = node.settings.state_dir
        known, kept = receipt(state_dir), copies(state_dir)
        try:
            attached = node.journal.survey(networks_attached)
        except JournalError:  # another finding reports it
            return [], ""
        fresh = renewed(kept, found, known, attached)
        failure = ""
        if fresh != kept:
            try:
                keep_copies(state_dir, fresh)
            except OSError as cause:  # tried again at the next tick
                self._seen = None
                failure = f"cannot store copies of networks in {state_dir}: {cause.strerror}"
        self._lost = list(missing(node.settings.conf_dir, fresh, found, known, attached))
        if not known.keep_network:
            return [], failure
        restored: list[Copy] = []
        for it in self._lost:
            if it.is_own and not it.is_taken:
                why = self._restore(it.copy)
                failure = failure or why
                if not why:
                    restored.append(it.copy)
        return restored, failure

    def _restore(self, copy: Copy) -> str:
        """Writes a network's file. Returns why that failed, or an empty string."""
        if not is_sound(copy):
            return f"cannot restore {copy.path}: this version cannot use its copy; run `netloom up`"
        try:
            # A purge removes what the agent wrote, as it removes what `netloom up` wrote.
            keep_copy(self._node.settings.state_dir, replace(copy, is_restored=True))
            put_new(copy.path, copy.content.encode(), READABLE)
        except FileExistsError:  # another process created it first
            return ""
        except OSError as cause:
            return f"cannot restore {copy.path}: {cause.strerror}"
        return ""
