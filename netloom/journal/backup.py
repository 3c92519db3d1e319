"""Copies of the journal: whole, durable, and made beside whoever writes it.

A copy appears under its name when it is complete and on disk, and not before. Those that the agent keeps by
itself, before it changes the journal's tables, are named after the schema that they have.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, suppress

from ..cni.files import sync_directory

_KEPT = 5
_KEPT_NAME = re.compile(r"\.backup-\d+")


def copy(connection: sqlite3.Connection, path: str) -> None:
    """As the journal is at this moment, over what is at `path`. Raises OSError or `sqlite3.DatabaseError`."""
    directory, name = os.path.split(path)
    spare = os.path.join(directory, f".{name}.new")
    try:
        with suppress(FileNotFoundError):
            os.unlink(spare)
        os.close(os.open(spare, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(spare, isolation_level=None)) as target:
            connection.backup(target)
            # One file, that can be read from a disk which nobody may write to.
            target.execute("PRAGMA journal_mode = DELETE")
        sync_file(spare)
        os.rename(spare, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(spare)
        raise
    sync_directory(directory or ".")


def keep(connection: sqlite3.Connection, path: str, schema: int) -> str:
    """A copy beside the journal at `path`, named after its schema; of many, the oldest go. Where it is.

    The same again replaces itself: an agent that fails to migrate, and tries for ever, fills no disk.
    """
    made = f"{path}.backup-{schema}"
    copy(connection, made)
    for old in kept(path)[:-_KEPT]:
        with suppress(OSError):
            os.unlink(old)
    return made


def kept(path: str) -> list[str]:
    """The copies of a journal that were kept, the oldest schema first."""
    directory, name = os.path.split(path)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return []
    found = [it for it in names if it.startswith(name) and _KEPT_NAME.fullmatch(it, len(name))]
    return [os.path.join(directory, it) for it in sorted(found, key=_number)]


def _number(backup: str) -> int:
    return int(backup.rpartition("-")[2])


def sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
