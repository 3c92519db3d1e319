"""What can go wrong with the journal, and what SQLite's errors mean.

SQLite's own text is for programmers and never reaches a user. An error is known by its name
(`sqlite_errorname`), never by its text.
"""

from __future__ import annotations

import sqlite3


class JournalError(Exception):
    """The journal cannot be used, and why."""


class MissingJournal(JournalError):
    """There is no such file."""


class NotAFile(JournalError):
    """Something else is at its path, which is not opened."""


class LockNotAFile(NotAFile):
    """Something else is at the path of its lock, which is not opened."""


class InUse(JournalError):
    """Another agent has it."""


class NewerSchema(JournalError):
    """A later netloom wrote it. It was not changed."""


class NotMigrated(JournalError):
    """It cannot be given our schema. It was not changed."""


class Unwritable(JournalError):
    """The disk did not take a change: full, read-only or broken. Nothing of the change happened."""


class ReadOnly(Unwritable):
    """The file or its disk is read-only."""


class Unreadable(Unwritable):
    """It cannot be read now: the disk fails, or another process has locked it. Nothing is changed."""


class Forbidden(Unreadable):
    """This user may not read it."""


class Damaged(JournalError):
    """The file is no journal, or no longer one."""


class Closed(JournalError):
    """It takes no more changes."""


# By the beginning of an error's name; the longer names come first.
_REASONS = (
    ("SQLITE_READONLY_DBMOVED", "the file was moved or removed while it was open"),
    ("SQLITE_READONLY", "the file or its disk is read-only"),
    ("SQLITE_FULL", "the disk is full"),
    ("SQLITE_IOERR_NOMEM", "there is not enough memory"),
    ("SQLITE_IOERR_SHMMAP", "the disk failed or is full"),
    ("SQLITE_IOERR", "the disk failed (input/output error)"),
    ("SQLITE_BUSY", "another process has locked it"),
    ("SQLITE_LOCKED", "another process has locked it"),
    ("SQLITE_CANTOPEN", "the file cannot be opened or made"),
    ("SQLITE_PERM", "permission denied"),
    ("SQLITE_AUTH", "permission denied"),
    ("SQLITE_NOMEM", "there is not enough memory"),
    ("SQLITE_TOOBIG", "a value is too large"),
    ("SQLITE_NOTADB", "the file is not a journal"),
    ("SQLITE_CORRUPT", "its content is corrupt"),
    ("SQLITE_CONSTRAINT_UNIQUE", "the same row is there already"),
    ("SQLITE_CONSTRAINT_PRIMARYKEY", "the same row is there already"),
    ("SQLITE_CONSTRAINT_FOREIGNKEY", "a row names another row that is not there"),
    ("SQLITE_CONSTRAINT_NOTNULL", "a row lacks a value"),
    ("SQLITE_CONSTRAINT", "a row breaks a rule of its table"),
    ("SQLITE_ERROR", "a table or a column is missing or has another form"),
)


class MalformedRow(sqlite3.DatabaseError):
    """A row is not what its table says. The text is ours."""


class Locked(sqlite3.OperationalError):
    """Another process has locked the database, and does not release it. The text is ours."""


class NotCheckpointed(sqlite3.OperationalError):
    """The log could not be written into the file. The text is ours."""


def name_of(cause: BaseException | None) -> str:
    """SQLite's name for an error; empty for an error that is not SQLite's."""
    return getattr(cause, "sqlite_errorname", "")


def is_damage(cause: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is damaged; a failing disk or a lock is something else.

    Python refuses text that is not UTF-8 with an `OperationalError` that has no name of SQLite's.
    """
    if isinstance(cause, MalformedRow):
        return True
    if name_of(cause):
        return name_of(cause).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
    return type(cause) is sqlite3.OperationalError


def is_read_only(cause: BaseException | None) -> bool:
    return name_of(cause).startswith("SQLITE_READONLY")


def reason(cause: BaseException) -> str:
    """Why it failed, for people.

    >>> try:
    ...     _ = sqlite3.connect(":memory:").execute("SELECT * FROM nothing")
    ... except sqlite3.Error as error:
    ...     reason(error)
    'a table or a column is missing or has another form'
    """
    known = name_of(cause)
    if known:
        return next((words for name, words in _REASONS if known.startswith(name)), f"SQLite reports {known}")
    if type(cause) is sqlite3.OperationalError:
        return "its content is corrupt: some text is not UTF-8"
    return str(cause)  # not SQLite's: the words are ours
