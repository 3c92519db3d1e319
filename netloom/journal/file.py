"""The journal's file: opens it for writing or reading, makes checkpoints, and explains its errors."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress

from ..failpoints import failpoint
from . import backup, schema
from .errors import (
    Damaged,
    JournalError,
    Locked,
    MissingJournal,
    NotMigrated,
    ReadOnly,
    Unreadable,
    Unwritable,
    is_damage,
    is_read_only,
    name_of,
    reason,
)
from .file_type import require_database
from .ledger import Ledger
from .lock import locked

# SQLite's value for a commit that waits for the disk.
DURABLE = "FULL"


def opened(path: str) -> sqlite3.Connection:
    with suppress(MissingJournal):
        require_database(path)
    with suppress(OSError):  # SQLite reports what is wrong
        # Mode 0600 before the file has content: SQLite gives the WAL the mode of the file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause) from None
    try:
        version = schema.require_known(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {DURABLE}")
        connection.execute("PRAGMA secure_delete = OFF")  # no content is secret, and writing zeros takes time
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        _migrate(connection, path, version)
        # The last agent may have left a WAL that fills the disk.
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
    """Migrates the file and first keeps a copy: no migration can be reversed."""
    if 0 < version < schema.VERSION:
        try:
            backup.keep(connection, path, version)
        except OSError as cause:
            raise Unwritable(f"cannot copy {path} before migrating it; it was not changed: {cause}") from None
        failpoint("migration.kept")
    _step(connection, path, version)
    if 0 < version < schema.VERSION:
        failpoint("migration.done")


def _step(connection: sqlite3.Connection, path: str, version: int) -> None:
    try:
        schema.migrate(connection, version)
    except sqlite3.DatabaseError as cause:
        if name_of(cause) != "SQLITE_ERROR":
            raise  # a fault of the disk or the file
        raise NotMigrated(
            f"cannot migrate {path} from schema {version} to {schema.VERSION}: {reason(cause)}; "
            "the file was not changed"
        ) from cause


def read_only(path: str) -> sqlite3.Connection:
    """Opens the journal for reading, while an agent runs or not. Raises `JournalError`.

    A journal of an older schema is migrated in memory; the file stays as it is.
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
    """Escapes a path for SQLite's URIs. Importing urllib would take as long as the query itself."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def as_it_is(path: str, *, is_copy: bool = False) -> tuple[sqlite3.Connection, int]:
    """Opens the file itself for reading and returns its schema. Raises `JournalError`.

    With `is_copy`, no agent writes the file, and SQLite must not leave a WAL beside it.
    """
    require_database(path)
    how = reading_mode(path, is_copy=is_copy)
    try:
        connection = sqlite3.connect(
            f"file:{_quoted(path)}?{how}", uri=True, isolation_level=None, timeout=5, check_same_thread=False
        )
        try:
            if how == ALONE:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            return connection, schema.require_known(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause, reading=True) from None


def in_memory(connection: sqlite3.Connection) -> Ledger:
    """Returns a copy in memory, on which changes can be tried."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    backup.pour(connection, copy)
    return Ledger(copy)


def empty() -> Ledger:
    """Returns an empty journal in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(connection, 0)
    return Ledger(connection)


def was_not_kept(cause: BaseException) -> bool:
    """Says whether the disk accepted a write and then failed to store it."""
    return name_of(cause) == "SQLITE_IOERR_FSYNC"


def explained(path: str, cause: sqlite3.DatabaseError, *, reading: bool = False) -> JournalError:
    """Returns the `JournalError` for an error of SQLite. `reading`: the caller wrote nothing."""
    why = reason(cause)
    if is_damage(cause):
        return Damaged(f"{path} is damaged: {why}")
    if isinstance(cause, sqlite3.IntegrityError):
        return JournalError(f"{path}: {why}")
    if reading or isinstance(cause, Locked):
        return Unreadable(f"cannot read the journal {path}: {why}")
    kind = ReadOnly if is_read_only(cause) else Unwritable
    return kind(f"cannot write the journal {path}: {why}")


def boottime() -> float:
    """Seconds since boot, suspended time included. Setting the clock does not change it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_BESIDE = "mode=ro"
# For a file that no process changes: no locks and no WAL.
_STILL = "mode=ro&immutable=1"
# For a file that no other process has open. `unix-none` takes no locks; an exclusive lock keeps the WAL's
# index in memory.
ALONE = "mode=ro&vfs=unix-none"

# In SQLite's header, the read version of the file; 2 means WAL mode.
_VERSION, _WITH_LOG = 19, 2


def reading_mode(path: str, *, is_copy: bool) -> str:
    """Returns how SQLite must open a file for reading so that it leaves no files beside it.

    For a file in WAL mode, SQLite creates a WAL and an index even to read it, and a reader may not delete
    them.
    """
    has_log, has_index = (os.path.exists(path + ending) for ending in ("-wal", "-shm"))
    if not has_log:
        return _STILL if _is_read_only(path) or (is_copy and _wants_log(path)) else _BESIDE
    # A process that has the file open has an index (-shm) beside it.
    return ALONE if is_copy and not has_index else _BESIDE


def _is_read_only(path: str) -> bool:
    """Says whether the disk is one on which SQLite cannot create the files it needs."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _wants_log(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            header = file.read(_VERSION + 1)
    except OSError:
        return False
    return header[_VERSION:] == bytes([_WITH_LOG])


def checkpoint(path: str) -> None:
    """Writes the WAL into the file, if no agent holds the journal. Reports no errors: later checks find them.

    A killed agent leaves a WAL. A copy of the file alone would lack the content of the WAL, and a file that
    replaces the journal would be combined with a foreign WAL.
    """
    if not os.path.exists(path) or not os.path.exists(f"{path}-wal"):
        return
    with suppress(JournalError, sqlite3.DatabaseError):
        lock = locked(path)
        try:
            require_database(path)
            with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as connection:
                # SQLite deletes the WAL when the last connection closes.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            os.close(lock)
