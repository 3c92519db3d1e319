"""A journal that was removed or damaged while its agent ran, for commands that stop the agent.

Only the agent knows where its file is now, so it is asked before it stops.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ...api.client import AgentError, Connection
from ...api.paths import Place
from ...cni.files import is_same_path
from ...journal.errors import Damaged, JournalError
from ...journal.file import as_it_is, explained
from ...journal.lost import advice, advice_on_damage, newest
from ...journal.moved_file import is_rescued, rescued
from ...journal.verification import require_whole
from ..control.process import is_stopped, user

_PATIENCE = 3.0


class LostJournal(Struct, frozen=True, kw_only=True):
    """The journal is not where the next agent looks for it, or it is damaged."""

    path: Annotated[str, Meta(description="where the next agent looks for it")]
    restore: Annotated[
        str | None,
        Meta(
            description="the file that `netloom journal restore` can restore it from; null if none is known"
        ),
    ]

    damage: Annotated[
        str | UnsetType, Meta(description="only if the file is damaged: what is wrong with it, in words")
    ] = UNSET

    def warning(self) -> str:
        if self.damage:
            return f"{self.damage}: the next agent may not know all attachments"
        become = "was replaced while the agent ran" if os.path.lexists(self.path) else "is missing"
        what = f"the journal {self.path} {become}: the next agent will not know the present attachments"
        if self.restore is None:
            return what
        kind = "a complete copy of it" if is_rescued(self.restore, self.path) else "the complete file itself"
        return f"{what}; {self.restore} is {kind}"

    def advice(self) -> str:
        if self.damage:
            return advice_on_damage(self.path, runs=False)
        return advice(self.path, self.restore or "", runs=False)


class Watched:
    """The journal's state, read before the agent stops and again after it has stopped."""

    def __init__(self, place: Place) -> None:
        self._path = place.journal
        self._copies = rescued(self._path)
        process = user(place)
        self._was_there = process is not None or os.path.exists(f"{self._path}.lock")
        self._was_in_place, self._at = _asked(place, process)

    def lost(self) -> LostJournal | None:
        """The lost journal; None if the journal is in its place and undamaged."""
        if not os.path.lexists(self._path):
            if not self._was_there:
                return None  # there never was one
        elif self._was_in_place is not False:
            damage = _damage(self._path)
            restore = newest(self._path) or None
            return LostJournal(path=self._path, restore=restore, damage=damage) if damage else None
        return LostJournal(path=self._path, restore=self._source())

    def _source(self) -> str | None:
        """The file to restore from: a copy that the agent wrote when it stopped, or the file where it is now.

        If no agent ran, it is the newest copy. If a log that is not empty is still in the journal's place,
        the moved file is complete only beside that log, and is not offered.
        """
        copies = [it for it in rescued(self._path) if it == self._at or it not in self._copies]
        if self._was_in_place is None:
            return newest(self._path) or None
        if copies:
            return copies[-1]
        return self._at if os.path.exists(self._at) and not _has_log(self._path) else None


def _damage(path: str) -> str:
    try:
        connection, _ = as_it_is(path)
        with closing(connection):
            require_whole(connection, path)
    except Damaged as error:
        return str(error)
    except sqlite3.DatabaseError as cause:
        told = explained(path, cause, reading=True)
        return str(told) if isinstance(told, Damaged) else ""
    except (JournalError, OSError):  # the next agent reports it
        pass
    return ""


def _has_log(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def _asked(place: Place, process: int | None) -> tuple[bool | None, str]:
    """Whether an agent has its journal in place, and where it is if not. None: no agent can be asked.

    Does not connect if no agent runs: a service manager would start one.
    """
    if process is None or is_stopped(process):
        return None, ""
    try:
        with Connection(place.socket, _PATIENCE) as connection:
            info = connection.info()
    except AgentError:
        return None, ""
    if not is_same_path(info.state_dir, place.state_dir):
        return None, ""
    return info.has_journal, info.journal_at
