"""A journal whose file was moved, removed or replaced while its agent has it open.

SQLite goes on: it writes to the file that it has open, wherever that is, and to the WAL at the old place. The
moved file alone lacks what is in the WAL, and a file that is put in the old place finds a WAL that is not its
own. Closing does not help: SQLite makes no checkpoint for a file that has moved. So a checkpoint is made on
purpose. It writes to the open file only. If that file has no name any more, a copy is written beside the
journal's path.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from contextlib import suppress

from ..failpoints import failpoint
from .backup import copy
from .errors import reason

log = logging.getLogger(__name__)

_OPEN = "/proc/self/fd"
_RESCUED = re.compile(r"\.rescued-(\d+)")
_LOGS = ("-wal", "-shm")
# How long to wait for other readers while the agent works, and when it ends. Milliseconds.
_BRIEFLY, _AT_LAST = 100, 5000


class MovedFile:
    """Keeps a moved journal whole. `file` is what was at `path` when it was opened."""

    def __init__(self, path: str, file: os.stat_result) -> None:
        self._path = path
        self._file = file
        # The copy that was written, and what was last told of it all.
        self._copy = ""
        self._told: tuple[str, str] | None = None

    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), self._file)
        except OSError:
            return False

    def where(self) -> str:
        """The file that has all of it: the open one, if it has a name, or the copy; or empty."""
        return name_of_open(self._file) or self._copy

    def save(self, connection: sqlite3.Connection, *, is_last: bool = False) -> None:
        """Logs what cannot be done, and tries it again the next time. For the writer's thread only."""
        why = _checkpoint_failure(connection, _AT_LAST if is_last else _BRIEFLY)
        failpoint("moved-file.checkpointed")
        name = name_of_open(self._file)
        if not name and (is_last or not self._copy):
            try:
                made = self._copy or _free(self._path)
                copy(connection, made)
                self._copy, why = made, ""
            except (OSError, sqlite3.DatabaseError) as cause:
                why = reason(cause)
        self._tell(name or self._copy, why)

    def _tell(self, where: str, why: str) -> None:
        if (where, why) == self._told:
            return
        self._told = (where, why)
        if why and where:
            log.error("%s is not whole: what was written last is in %s-wal only: %s", where, self._path, why)
        elif why:
            log.error("the journal %s is gone, and no copy of it can be kept: %s", self._path, why)
        elif where == self._copy:
            log.warning("the journal %s was removed; %s is a copy of it", self._path, where)
        else:
            log.warning("the journal %s was moved to %s, and is whole", self._path, where)

    def tidy(self) -> None:
        """After closing: removes an empty WAL, which the next journal would take for its own."""
        if not os.path.lexists(self._path):
            remove_empty_log(self._path)


def remove_empty_log(path: str) -> None:
    """Of a file that is not there. A log with something in it may be all that is left, and stays."""
    wal, shm = (path + ending for ending in _LOGS)
    with suppress(OSError):
        if os.lstat(wal).st_size == 0:
            os.unlink(wal)
    if not os.path.lexists(wal):
        with suppress(OSError):
            os.unlink(shm)


def name_of_open(file: os.stat_result) -> str:
    """The path of a file that this process has open; empty if it has none that can be seen.

    It is searched for, and not opened: closing it again would drop SQLite's locks on it.
    """
    for it in os.listdir(_OPEN):
        with suppress(OSError):
            if os.path.samestat(os.stat(f"{_OPEN}/{it}"), file):
                name = os.readlink(f"{_OPEN}/{it}")
                return name if os.path.samestat(os.stat(name), file) else ""
    return ""


def rescued(path: str) -> list[str]:
    """The copies beside a journal's place, the last one last."""
    directory, name = os.path.split(path)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return []
    found = {
        int(match[1]): it
        for it in names
        if it.startswith(name) and (match := _RESCUED.fullmatch(it, len(name)))
    }
    return [os.path.join(directory, found[number]) for number in sorted(found)]


def is_rescued(where: str, path: str) -> bool:
    """Whether it is such a copy, by its name."""
    return where.startswith(path) and _RESCUED.fullmatch(where, len(path)) is not None


def _free(path: str) -> str:
    there = rescued(path)
    return f"{path}.rescued-{int(there[-1].rpartition('-')[2]) + 1 if there else 1}"


def _checkpoint_failure(connection: sqlite3.Connection, patience: int) -> str:
    """Makes a checkpoint; why a part of the WAL is not in the file, empty if all of it is."""
    try:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        try:
            busy, logged, done = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {_AT_LAST}")
    except sqlite3.DatabaseError as cause:
        return reason(cause)
    return "another process reads it" if busy and logged != done else ""
