"""A journal that somebody gave a schema of his own is as it was again, and what he has finished stays so."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from netloom.journal import Journal, NewerSchema, backup, read_only, schema

from .rows import reserve

pytestmark = pytest.mark.unit

LATER = schema.VERSION + 1


def lent(path: str, *changes: str) -> None:
    """Two are attached; a successor keeps its copy, migrates, changes something, and ends without a word."""
    with Journal(path) as journal:
        journal.change(lambda ledger: ledger.commit(reserve(ledger, "web", 1), 7)).result(5)
        journal.change(lambda ledger: ledger.commit(reserve(ledger, "db", 2), 7)).result(5)
    connection = sqlite3.connect(path, isolation_level=None)
    backup.keep(connection, path, schema.VERSION)
    connection.execute(f"PRAGMA user_version = {LATER}")
    connection.execute(f"UPDATE fact SET value = '{LATER}' WHERE name = 'readable_by'")
    for change in changes:
        connection.execute(change)
    connection.close()


def states(journal: Journal) -> Mapping[str, str]:
    return journal.ask(lambda ledger: {it.container_id: it.state for it in ledger.attachments()}).result(5)


def test_it_is_as_it_was_when_it_was_lent(path: str) -> None:
    lent(path, "CREATE TABLE of_later (a INTEGER) STRICT")
    with Journal(path, lent_with=schema.VERSION) as journal:
        assert journal.schema == schema.VERSION
        assert states(journal) == {"web": "committed", "db": "committed"}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT name FROM sqlite_schema WHERE name = 'of_later'").fetchall() == []


def test_what_was_detached_meanwhile_is_to_be_detached_again(path: str) -> None:
    lent(
        path,
        "DELETE FROM address WHERE attachment = (SELECT id FROM attachment WHERE container_id = 'web')",
        "DELETE FROM attachment WHERE container_id = 'web'",
    )
    with Journal(path, lent_with=schema.VERSION) as journal:
        assert states(journal) == {"web": "deleting", "db": "committed"}


def test_of_tables_that_it_does_not_know_nothing_is_taken_to_be_detached(path: str) -> None:
    lent(path, "ALTER TABLE attachment RENAME TO of_later")
    with Journal(path, lent_with=schema.VERSION) as journal:
        assert states(journal) == {"web": "committed", "db": "committed"}


@pytest.mark.slow
def test_whoever_reads_meanwhile_does_not_hinder_it(path: str) -> None:
    lent(path)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM attachment").fetchone() == (2,)
        with Journal(path, lent_with=schema.VERSION) as journal:
            assert states(journal) == {"web": "committed", "db": "committed"}


def test_one_that_can_be_read_stays_as_it_is(path: str) -> None:
    lent(path, f"UPDATE fact SET value = '{schema.VERSION}' WHERE name = 'readable_by'")
    with Journal(path, lent_with=schema.VERSION) as journal:
        assert journal.schema == LATER


def test_without_a_copy_it_is_left_alone(path: str) -> None:
    lent(path)
    os.unlink(backup.kept_as(path, schema.VERSION))
    with pytest.raises(NewerSchema):
        Journal(path, lent_with=schema.VERSION)


def test_one_that_was_not_lent_is_left_alone_and_the_copy_is_named(path: str) -> None:
    lent(path)
    for opened in (Journal, read_only):
        with pytest.raises(NewerSchema, match=f"backup-{schema.VERSION}"):
            opened(path)
