"""The journal's file: opened for writing or for looking, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress

from ..failpoints import reach
from . import backup, manner, schema
from .causes import Locked, is_damage, is_read_only, name_of, reason
from .errors import Damaged, JournalError, Missing, NotMigrated, ReadOnly, Unreadable, Unwritable
from .kinds import require_database
from .ledger import Ledger

# What SQLite calls a commit that waits for the disk.
DURABLE = "FULL"


def opened(path: str) -> sqlite3.Connection:
    with suppress(Missing):
        require_database(path)
    with suppress(OSError):  # SQLite will say what is wrong
        # For its owner alone before anything is in it: SQLite gives the WAL the file's own mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause) from None
    try:
        version = schema.require_known(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {DURABLE}")
        connection.execute("PRAGMA secure_delete = OFF")  # nothing in it is secret, and zeros cost writes
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        _migrate(connection, path, version)
        # Whoever was before us may have left a WAL that fills the disk.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.chmod(path, 0o600)
    except sqlite3.DatabaseError as cause:
        connection.close()
        raise explained(path, cause) from None
    except OSError as cause:
        connection.close()
        raise Unwritable(f"cannot write to {path}: {cause.strerror}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: str, version: int) -> None:
    """With a copy of the file as it was, for the way back that no migration knows."""
    if 0 < version < schema.VERSION:
        try:
            backup.keep(connection, path, version)
        except OSError as cause:
            raise Unwritable(f"no copy of {path} can be kept, and so it is not changed: {cause}") from None
        reach("migration.kept")
    _step(connection, path, version)
    if 0 < version < schema.VERSION:
        reach("migration.done")


def _step(connection: sqlite3.Connection, path: str, version: int) -> None:
    try:
        schema.migrate(connection, version)
    except sqlite3.DatabaseError as cause:
        if name_of(cause) != "SQLITE_ERROR":
            raise  # the disk's fault, or the file's
        raise NotMigrated(
            f"{path} has schema {version}, and cannot be given {schema.VERSION}: {reason(cause)}; "
            "it is as it was"
        ) from cause


def read_only(path: str) -> sqlite3.Connection:
    """For looking at it, beside an agent or without one. Raises `JournalError`.

    Of one that an older agent writes, a copy as we would have it; the file stays as it is.
    """
    connection, version = as_it_is(path)
    try:
        if version < schema.VERSION:
            with closing(connection):
                copy = in_memory(connection).connection
            _step(copy, path, version)
            return copy
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause, reading=True) from None
    return connection


def _quoted(path: str) -> str:
    """For SQLite's kind of URI. urllib would cost every command as much as the question itself."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def as_it_is(path: str, *, is_copy: bool = False) -> tuple[sqlite3.Connection, int]:
    """For looking at the file itself, and its schema. Raises `JournalError`.

    Of a copy, which no agent writes, nothing is left beside it: SQLite would make a log for its own use.
    """
    require_database(path)
    how = manner.of(path, is_copy=is_copy)
    try:
        connection = sqlite3.connect(
            f"file:{_quoted(path)}?{how}", uri=True, isolation_level=None, timeout=5, check_same_thread=False
        )
        try:
            if how == manner.ALONE:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            return connection, schema.require_known(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause, reading=True) from None


def in_memory(connection: sqlite3.Connection) -> Ledger:
    """A copy in which everything can be tried."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    backup.pour(connection, copy)
    return Ledger(copy)


def empty() -> Ledger:
    """A journal in which nothing stands yet, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(connection, 0)
    return Ledger(connection)


def was_not_kept(cause: BaseException) -> bool:
    """Whether the disk took something, and then failed to keep it."""
    return name_of(cause) == "SQLITE_IOERR_FSYNC"


def explained(path: str, cause: sqlite3.DatabaseError, *, reading: bool = False) -> JournalError:
    """`reading`: nothing was to be written."""
    why = reason(cause)
    if is_damage(cause):
        return Damaged(f"{path} is damaged: {why}")
    if isinstance(cause, sqlite3.IntegrityError):
        return JournalError(f"{path}: {why}")
    if reading or isinstance(cause, Locked):
        return Unreadable(f"the journal {path} cannot be read: {why}")
    kind = ReadOnly if is_read_only(cause) else Unwritable
    return kind(f"the journal {path} cannot be written: {why}")


def boottime() -> float:
    """Seconds since boot, asleep or not. No clock that somebody sets changes it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
