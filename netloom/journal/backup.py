"""Copies of the journal: whole, durable, and made while the agent writes it.

A copy gets its name only when it is complete and on disk. Before the agent changes the journal's tables, it
keeps a copy that is named after the old schema.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from ..cni.files import sync_directory
from .errors import Locked, name_of, reason

_KEPT = 5
_KEPT_NAME = re.compile(r"\.backup-\d+")
_REPLACED_NAME = re.compile(r"\.replaced-\d+")
# SQLite errors about the file being read; and the errno for errors about the file being written.
_OF_READING = frozenset(
    {
        "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ",
        "SQLITE_IOERR_CORRUPTFS", "SQLITE_IOERR_DATA", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_BUSY_SNAPSHOT",
    }
)  # fmt: skip
_ERRNOS = {
    "SQLITE_FULL": errno.ENOSPC, "SQLITE_READONLY": errno.EROFS, "SQLITE_CANTOPEN": errno.ENOENT,
}  # fmt: skip
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PATIENCE = 10.0


def copy(connection: sqlite3.Connection, path: str) -> None:
    """Copies the journal as it is at this moment over the file at `path`; a failure leaves no partial copy.

    Raises OSError if the copy cannot be written, and `sqlite3.DatabaseError` if the journal cannot be read.
    Two files are involved, and the reader of the message must know which of them to check.
    """
    with replacing(path) as spare:
        _fill(spare, connection)


def _fill(spare: str, connection: sqlite3.Connection) -> None:
    try:
        with closing(sqlite3.connect(spare, isolation_level=None)) as target:
            target.execute("PRAGMA journal_mode = OFF")  # a failed copy is discarded as a whole
            pour(connection, target)
            # A single file can be read from a read-only disk.
            target.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as cause:
        if _is_of_reading(cause):
            raise
        code = _ERRNOS.get(name_of(cause), errno.EIO)
        raise OSError(code, reason(cause), spare) from None


def pour(connection: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copies all of a database into another. Without a deadline, Python would retry a locked one for ever."""
    deadline = time.monotonic() + _PATIENCE

    def look(status: int, _left: int, _all: int) -> None:
        if status in _BUSY and time.monotonic() > deadline:
            raise Locked(f"another process has locked it for {_PATIENCE:g} s")

    connection.backup(target, progress=look)


def _is_of_reading(cause: sqlite3.DatabaseError) -> bool:
    """Says whether the error concerns the file being read. The new file is never damaged or locked."""
    return isinstance(cause, Locked) or name_of(cause) in _OF_READING


def keep(connection: sqlite3.Connection, path: str, schema: int) -> str:
    """Keeps a copy beside the journal at `path`, named after its schema, and returns its path.

    Deletes the oldest copies. A second copy of the same schema replaces the first, so that an agent which
    keeps failing to migrate fills no disk.
    """
    made = kept_as(path, schema)
    copy(connection, made)
    for old in kept(path)[:-_KEPT]:
        with suppress(OSError):
            os.unlink(old)
    return made


def kept_as(path: str, schema: int) -> str:
    """Returns the path of the copy that is kept of a journal with this schema."""
    return f"{path}.backup-{schema}"


def kept(path: str) -> list[str]:
    """Returns the kept copies of a journal, the oldest schema first."""
    return sorted(_beside(path, _KEPT_NAME), key=schema_of)


def replaced_as(path: str, number: int) -> str:
    """Returns a path to keep a journal at when another one takes its place."""
    return f"{path}.replaced-{number}"


def replaced(path: str) -> list[str]:
    """Returns the journals that were replaced by others, the newest last."""
    return sorted(_beside(path, _REPLACED_NAME), key=_number_of)


def _beside(path: str, name: re.Pattern[str]) -> list[str]:
    directory, journal = os.path.split(path)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return []
    found = [it for it in names if it.startswith(journal) and name.fullmatch(it, len(journal))]
    return [os.path.join(directory, it) for it in found]


def schema_of(backup: str) -> int:
    """Returns the schema of a kept copy, which its name contains."""
    return _number_of(backup)


def _number_of(copy: str) -> int:
    return int(copy.rpartition("-")[2])


# Files that SQLite may leave beside it.
_BESIDE = ("-journal", "-wal", "-shm")
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def name_of_spare(path: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.netloom-new")


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Gives an empty spare file to write to. It takes the place of `path` once it is whole and on disk.

    If the block fails, the spare file is deleted and `path` stays unchanged. The spare file always has the
    same name, so that the next run reuses what a killed process left. A lock shows whether it is still being
    written.
    """
    spare = name_of_spare(path)
    fd = _held(spare)
    try:
        for it in _BESIDE:
            with suppress(FileNotFoundError):
                os.unlink(spare + it)
        os.ftruncate(fd, 0)
        yield spare
        os.fsync(fd)
        os.rename(spare, path)
    except BaseException:
        for it in ("", *_BESIDE):
            with suppress(OSError):
                os.unlink(spare + it)
        raise
    finally:
        os.close(fd)
    sync_directory(os.path.dirname(path) or ".")


def _held(spare: str) -> int:
    """Returns a locked descriptor of the file at that path, whose last holder may just have renamed it."""
    while True:
        fd = os.open(spare, _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.lstat(spare)):
                    return fd
        except BlockingIOError:
            os.close(fd)
            raise OSError(errno.EBUSY, "another process is writing it", spare) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
