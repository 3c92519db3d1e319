"""What can go wrong with the journal, and what SQLite's errors mean.

SQLite's own text is for programmers and is never shown to a user. Code identifies an error by its name
(`sqlite_errorname`), never by its text.
"""

from __future__ import annotations

import sqlite3


class JournalError(Exception):
    """The journal cannot be used; the text says why."""


class MissingJournal(JournalError):
    """There is no file at the journal's path."""


class NotAFile(JournalError):
    """The journal's path is not a regular file, so it is not opened."""


class LockNotAFile(NotAFile):
    """The path of the journal's lock is not a regular file, so it is not opened."""


class InUse(JournalError):
    """Another agent holds the journal."""


class NewerSchema(JournalError):
    """A later netloom wrote the journal. It was not changed."""


class NotMigrated(JournalError):
    """The journal cannot be migrated to this version's schema. It was not changed."""


class Unwritable(JournalError):
    """The disk did not accept a change: it is full, read-only or failing. No part of the change was made."""


class ReadOnly(Unwritable):
    """The file or its disk is read-only."""


class Unreadable(Unwritable):
    """The file cannot be read now: the disk fails, or another process has locked it. Nothing was changed."""


class Forbidden(Unreadable):
    """This user may not read the file."""


class Damaged(JournalError):
    """The file is not a journal, or is corrupt."""


class Closed(JournalError):
    """The journal is closed and accepts no more changes."""


# Keys are beginnings of error names; the longer names come first.
_REASONS = (
    ("SQLITE_READONLY_DBMOVED", "the file was moved or deleted while it was open"),
    ("SQLITE_READONLY", "the file or its disk is read-only"),
    ("SQLITE_FULL", "the disk is full"),
    ("SQLITE_IOERR_NOMEM", "there is not enough memory"),
    ("SQLITE_IOERR_SHMMAP", "the disk failed or is full"),
    ("SQLITE_IOERR", "the disk failed (input/output error)"),
    ("SQLITE_BUSY", "another process has locked it"),
    ("SQLITE_LOCKED", "another process has locked it"),
    ("SQLITE_CANTOPEN", "the file cannot be opened or created"),
    ("SQLITE_PERM", "permission denied"),
    ("SQLITE_AUTH", "permission denied"),
    ("SQLITE_NOMEM", "there is not enough memory"),
    ("SQLITE_TOOBIG", "a value is too large"),
    ("SQLITE_NOTADB", "the file is not a journal"),
    ("SQLITE_CORRUPT", "its content is corrupt"),
    ("SQLITE_CONSTRAINT_UNIQUE", "this row already exists"),
    ("SQLITE_CONSTRAINT_PRIMARYKEY", "this row already exists"),
    ("SQLITE_CONSTRAINT_FOREIGNKEY", "a row refers to a row that does not exist"),
    ("SQLITE_CONSTRAINT_NOTNULL", "a row lacks a value"),
    ("SQLITE_CONSTRAINT", "a row breaks a rule of its table"),
    ("SQLITE_ERROR", "a table or a column is missing or has another definition"),
)


class MalformedRow(sqlite3.DatabaseError):
    """A row does not fit its table. netloom writes the text."""


class Locked(sqlite3.OperationalError):
    """Another process has locked the database and does not release it. netloom writes the text."""


class NotCheckpointed(sqlite3.OperationalError):
    """The WAL could not be written into the file. netloom writes the text."""


def name_of(cause: BaseException | None) -> str:
    """Returns SQLite's name for an error; empty for an error that is not SQLite's."""
    return getattr(cause, "sqlite_errorname", "")


def is_damage(cause: sqlite3.DatabaseError) -> bool:
    """Says whether the file itself is damaged; a failing disk or a lock is not damage.

    Python reports text that is not UTF-8 as an `OperationalError` without a name of SQLite's.
    """
    if isinstance(cause, MalformedRow):
        return True
    if name_of(cause):
        return name_of(cause).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
    return type(cause) is sqlite3.OperationalError


def is_read_only(cause: BaseException | None) -> bool:
    return name_of(cause).startswith("SQLITE_READONLY")


def reason(cause: BaseException) -> str:
    """Returns why it failed, for people.

    >>> try:
    ...     _ = sqlite3.connect(":memory:").execute("SELECT * FROM nothing")
    ... except sqlite3.Error as error:
    ...     reason(error)
    'a table or a column is missing or has another definition'
    """
    known = name_of(cause)
    if known:
        return next((words for name, words in _REASONS if known.startswith(name)), f"SQLite reports {known}")
    if type(cause) is sqlite3.OperationalError:
        return "its content is corrupt: some text is not UTF-8"
    return str(cause)  # not SQLite's: netloom wrote the text
