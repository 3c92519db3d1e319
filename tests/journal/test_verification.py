"""What is wrong with a journal is found, and a sound one is called sound."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from netloom.cni import Result
from netloom.journal import Journal, schema
from netloom.journal.verification import Fault, faults
from netloom.kernel import Plan, Up

from .rows import operation, reserve

pytestmark = pytest.mark.unit


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A journal with two attachments, that is sound."""
    found = str(tmp_path / "journal.db")
    with Journal(found) as journal:
        journal.change(lambda ledger: reserve(ledger, "web", 2)).result(5)
        journal.change(lambda ledger: reserve(ledger, "db", 3)).result(5)
        journal.log(operation("web"))
    result = Result(cni_version="1.1.0").encode()
    with closing(sqlite3.connect(found, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE attachment SET plan = ?, result = ?", (Plan((Up("eth0"),)).encode(), result)
        )
    return found


def found_in(path: str, change: str = "", version: int = schema.VERSION) -> list[Fault]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(change)
        return list(faults(connection, version))


def test_a_sound_journal_has_no_fault(path: str) -> None:
    assert found_in(path) == []


@pytest.mark.parametrize(
    ("change", "kind", "subject"),
    [
        ("UPDATE attachment SET plan = x'00' WHERE container_id = 'db'", "plan", "net/db/eth0"),
        ("UPDATE attachment SET result = x'5b5d' WHERE container_id = 'db'", "result", "net/db/eth0"),
        ("UPDATE operation SET phases = '[]'", "operation", "operation 1"),
        ("DELETE FROM address WHERE attachment = 1", "addressless", "net/web/eth0"),
        ("DROP TABLE cursor", "tables", "cursor"),
        ("ALTER TABLE operation DROP COLUMN caller", "tables", "operation"),
    ],
)
def test_what_somebody_has_changed_is_found(path: str, change: str, kind: str, subject: str) -> None:
    assert [(it.kind, it.subject) for it in found_in(path, change)] == [(kind, subject)]


def test_rows_that_name_one_that_is_gone_are_found(path: str) -> None:
    found = found_in(path, "PRAGMA foreign_keys = OFF; DELETE FROM attachment WHERE container_id = 'web'")
    assert [(it.kind, it.subject) for it in found] == [("reference", "address")]


def test_a_file_with_a_hole_is_found(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"\xff" * 4096)
    assert {it.kind for it in found_in(path)} == {"file"}


def test_what_a_later_version_has_added_is_no_fault(path: str) -> None:
    change = "ALTER TABLE attachment ADD COLUMN of_later TEXT; CREATE TABLE of_later (a)"
    assert found_in(path, change, schema.VERSION + 1) == []
