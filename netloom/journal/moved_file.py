"""Keeps a journal safe whose file is moved, deleted or replaced while its agent has it open.

SQLite continues: it writes to the open file, wherever that is, and to the WAL at the old path. The moved file
alone lacks the content of the WAL, and a new file at the old path would find a foreign WAL. Closing does not
help, since SQLite makes no checkpoint for a file that has moved. So this module makes the checkpoint, which
writes to the open file only. If that file has no name any more, it writes a copy beside the journal's path.
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
# How long to wait for other readers: while the agent works, and when it ends. Milliseconds.
_BRIEFLY, _AT_LAST = 100, 5000


class MovedFile:
    """Saves a journal that was moved. `file` is the status of the file that was opened at `path`."""

    def __init__(self, path: str, file: os.stat_result) -> None:
        self._path = path
        self._file = file
        # The copy that was written, and what was last logged.
        self._copy = ""
        self._logged: tuple[str, str] | None = None

    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), self._file)
        except OSError:
            return False

    def where(self) -> str:
        """Returns the file with the whole content: the open one if it has a name, else the copy, or empty."""
        return name_of_open(self._file) or self._copy

    def save(self, connection: sqlite3.Connection, *, is_last: bool = False) -> None:
        """Saves the content; logs what fails, and retries it next time. Only the writer's thread may
        call it.
        """
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
        self._log_once(name or self._copy, why)

    def _log_once(self, where: str, why: str) -> None:
        if (where, why) == self._logged:
            return
        self._logged = (where, why)
        if why and where:
            log.error("%s is incomplete: the latest entries are only in %s-wal: %s", where, self._path, why)
        elif why:
            log.error("the journal %s was deleted, and cannot be copied: %s", self._path, why)
        elif where == self._copy:
            log.warning("the journal %s was deleted; %s is a copy of it", self._path, where)
        else:
            log.warning("the journal %s was moved to %s and is complete", self._path, where)

    def tidy(self) -> None:
        """After closing, deletes an empty WAL, which the next journal would take for its own."""
        if not os.path.lexists(self._path):
            remove_empty_log(self._path)


def remove_empty_log(path: str) -> None:
    """Deletes an empty WAL whose file does not exist. One with content may be the last data."""
    wal, shm = (path + ending for ending in _LOGS)
    with suppress(OSError):
        if os.lstat(wal).st_size == 0:
            os.unlink(wal)
    if not os.path.lexists(wal):
        with suppress(OSError):
            os.unlink(shm)


def name_of_open(file: os.stat_result) -> str:
    """Returns the path of a file that this process has open; empty if it has no visible name.

    The function only searches for the path. Opening and closing the file would release SQLite's locks on it.
    """
    for it in os.listdir(_OPEN):
        with suppress(OSError):
            if os.path.samestat(os.stat(f"{_OPEN}/{it}"), file):
                name = os.readlink(f"{_OPEN}/{it}")
                return name if os.path.samestat(os.stat(name), file) else ""
    return ""


def rescued(path: str) -> list[str]:
    """Returns the rescued copies beside a journal's path, the newest last."""
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
    """Says whether a path is such a copy, by its name."""
    return where.startswith(path) and _RESCUED.fullmatch(where, len(path)) is not None


def _free(path: str) -> str:
    there = rescued(path)
    return f"{path}.rescued-{int(there[-1].rpartition('-')[2]) + 1 if there else 1}"


def _checkpoint_failure(connection: sqlite3.Connection, patience: int) -> str:
    """Makes a checkpoint; returns why a part of the WAL is not in the file, empty if all of it is."""
    try:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        try:
            busy, logged, done = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {_AT_LAST}")
    except sqlite3.DatabaseError as cause:
        return reason(cause)
    return "another process is reading it" if busy and logged != done else ""
