"""The journal's file: opening it to write or to read, checkpoints, and what its errors mean."""

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

# What SQLite calls a commit that waits for the disk.
DURABLE = "FULL"


def opened(path: str) -> sqlite3.Connection:
    with suppress(MissingJournal):
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
        # The agent before us may have left a WAL that fills the disk.
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
        failpoint("migration.kept")
    _step(connection, path, version)
    if 0 < version < schema.VERSION:
        failpoint("migration.done")


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
    """To read it, beside an agent or without one. Raises `JournalError`.

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
    """For SQLite's kind of URI. urllib would cost every command as much as the question itself."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def as_it_is(path: str, *, is_copy: bool = False) -> tuple[sqlite3.Connection, int]:
    """Opens the file itself to read it, and gives its schema. Raises `JournalError`.

    `is_copy`: no agent writes it, so that SQLite must leave no WAL beside it.
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
    """Seconds since boot, suspended time included. Setting the clock does not change it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_BESIDE = "mode=ro"
# No process changes the file: without locks, and without a WAL.
_STILL = "mode=ro&immutable=1"
# No other process has it open. `unix-none` makes no locks: an exclusive one keeps the WAL's index in memory.
ALONE = "mode=ro&vfs=unix-none"

# Of SQLite's header: the file's version for who reads it. 2: it has a log.
_VERSION, _WITH_LOG = 19, 2


def reading_mode(path: str, *, is_copy: bool) -> str:
    """How SQLite opens a file to read it, so that it leaves nothing beside it.

    A file in WAL mode makes SQLite create a WAL and an index, even to read it, and a reader may not remove
    them.
    """
    has_log, has_index = (os.path.exists(path + ending) for ending in ("-wal", "-shm"))
    if not has_log:
        return _STILL if _is_read_only(path) or (is_copy and _wants_log(path)) else _BESIDE
    # A process that has it open has an index (-shm) beside it.
    return ALONE if is_copy and not has_index else _BESIDE


def _is_read_only(path: str) -> bool:
    """A disk on which SQLite cannot make what it needs."""
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
    """Writes the WAL into the file, if no agent has the journal. Reports no errors: others judge the file.

    A killed agent leaves a WAL. A copy of the file alone would miss what is in it, and a file that is put in
    the journal's place would be mixed with it.
    """
    if not os.path.exists(path) or not os.path.exists(f"{path}-wal"):
        return
    with suppress(JournalError, sqlite3.DatabaseError):
        lock = locked(path)
        try:
            require_database(path)
            with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as connection:
                # The last connection that closes removes the WAL.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            os.close(lock)
