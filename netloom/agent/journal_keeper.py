"""Detects that the journal's file was damaged, removed or replaced while the agent runs."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from ..journal import Journal, lost
from .conditions import Conditions
from .locks import SingleFlight

log = logging.getLogger(__name__)

# Names of the failures.
GONE, DAMAGED = "journal", "damage"

# How long a caller waits until the whole journal has been read, in seconds. Then it is not read again for
# `_RESTS` times as long as reading took.
_PATIENCE, _RESTS = 1.0, 20


class JournalKeeper:
    def __init__(self, journal: Journal, conditions: Conditions) -> None:
        self._journal = journal
        self._conditions = conditions
        self._proof: SingleFlight[None] = SingleFlight(lambda: asyncio.to_thread(journal.prove))

    async def prove(self, fresh: float = 0.0) -> None:
        """Reads the whole journal file, unless that was done `fresh` seconds ago. Waits a second at most.

        However large the file is and however often this is called, reading takes a small share of the time.
        """
        journal = self._journal
        if time.monotonic() - journal.proved < max(fresh, _RESTS * journal.proving_took):
            return
        with suppress(TimeoutError):  # reading continues, and the next caller gets the result
            await self._proof(_PATIENCE)

    def check(self) -> None:
        """Sets the failures of the journal, and clears those that are resolved."""
        self._check_damage()
        self._check_file()

    def failure(self) -> str:
        """Returns why the journal cannot store an attachment, or an empty string."""
        return self._conditions.failure(GONE, DAMAGED)

    def _check_damage(self) -> None:
        damage = self._journal.damage
        if not damage:
            self._conditions.recover(DAMAGED)
            return
        text = f"{damage}; {lost.advice_on_damage(self._journal.path, runs=True)}"
        if self._conditions.fail(DAMAGED, text):
            log.error("%s", text)

    def _check_file(self) -> None:
        """Checks that the file is at its path. A removed file still takes changes; the agent saves a copy."""
        if self._journal.is_in_place():
            self._conditions.recover(GONE)
            return
        self._journal.save()
        path = self._journal.path
        what_to_do = lost.advice(path, self._journal.where(), runs=True)
        text = f"the journal {path} was removed or replaced while the agent ran; {what_to_do}"
        if self._conditions.fail(GONE, text):
            log.error("%s", text)
