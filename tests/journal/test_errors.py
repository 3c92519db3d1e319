"""Errors of SQLite are told in words of ours, and told apart by their names."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal import Damaged, Journal, JournalError, Unwritable, read_only
from netloom.journal.errors import Locked, ReadOnly, Unreadable, is_damage, reason
from netloom.journal.file import explained
from netloom.journal.ledger import Ledger

from .rows import reserve

pytestmark = pytest.mark.unit


def _full(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("INSERT INTO fact VALUES (?, ?)", ("long", "x" * 100_000))


def _read_only(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.execute("DELETE FROM fact")


def _same_twice(connection: sqlite3.Connection) -> None:
    for _ in range(2):
        connection.execute("INSERT INTO fact VALUES ('once', '1')")


def _no_table(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT * FROM attachmemt")


def _no_text(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()


PROVOKED = {
    "full": (_full, Unwritable),
    "read-only": (_read_only, ReadOnly),
    "twice": (_same_twice, JournalError),
    "missing": (_no_table, Unwritable),
    "no text": (_no_text, Damaged),
}


@pytest.mark.parametrize(("provoke", "kind"), PROVOKED.values(), ids=PROVOKED)
def test_what_sqlite_says_is_told_in_other_words(
    provoke: Callable[[sqlite3.Connection], None], kind: type[JournalError], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT)")
        with pytest.raises(sqlite3.DatabaseError) as raised:
            provoke(connection)
    told = explained("journal.db", raised.value)
    assert type(told) is kind
    assert str(raised.value) not in str(told)


def test_every_error_that_sqlite_has_a_name_for_gets_words() -> None:
    """Also those of versions to come, whose names begin like ones that are known."""
    for name in (it for it in dir(sqlite3) if it.startswith("SQLITE_IOERR") or it in _PRIMARY):
        error = sqlite3.OperationalError("raw text")
        error.sqlite_errorname = name
        assert "raw text" not in reason(error)
        assert name not in reason(error)


_PRIMARY = {
    "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_CONSTRAINT", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FULL",
    "SQLITE_LOCKED", "SQLITE_NOMEM", "SQLITE_NOTADB", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_TOOBIG",
}  # fmt: skip


def test_an_error_without_words_is_named() -> None:
    error = sqlite3.OperationalError("raw text")
    error.sqlite_errorname = "SQLITE_PROTOCOL"
    assert reason(error) == "SQLite reports SQLITE_PROTOCOL"


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_file_is_damaged_whatever_its_bytes(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(Damaged):
        read_only(str(path))


def test_a_lock_is_not_damage() -> None:
    error = Locked("another process has locked it for 10 s")
    assert not is_damage(error)
    assert isinstance(explained("journal.db", error), Unreadable)


def test_rows_that_contradict_each_other_are_no_fault_of_the_disk(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal.db"))

    def twice(ledger: Ledger) -> None:
        reserve(ledger, "web", 2)
        reserve(ledger, "web", 2)

    try:
        with pytest.raises(JournalError, match="this row already exists"):
            journal.change(twice).result(5)
        assert journal.trouble == ""
    finally:
        journal.close()
