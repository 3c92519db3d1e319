"""Copies of a journal: whole or not there, and kept before its tables change."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal import Journal, NotMigrated, backup, errors, schema
from netloom.journal.backup import replacing

from .rows import reserve

pytestmark = pytest.mark.unit


def older(path: str, version: int = schema.VERSION - 1) -> None:
    """A journal as a version before this one has left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.migrate(connection, 0, version)


def version_of(path: str | Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_copy_beside_a_writer_is_whole_and_for_its_owner_alone(journal: Journal, tmp_path: Path) -> None:
    journal.change(lambda ledger: reserve(ledger, "web", 2)).result(5)
    with closing(sqlite3.connect(journal.path)) as connection:
        backup.copy(connection, str(tmp_path / "copy.db"))
    assert sorted(it.name for it in tmp_path.glob("*copy*")) == ["copy.db"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(f"file:{tmp_path}/copy.db?mode=ro&immutable=1", uri=True)) as copied:
        assert copied.execute("SELECT container_id FROM attachment").fetchall() == [("web",)]
        assert copied.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_copy_that_fails_leaves_what_was_there(journal: Journal, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.mkdir()
    with closing(sqlite3.connect(journal.path)) as connection, pytest.raises(OSError, match="directory"):
        backup.copy(connection, str(target))
    assert [it.name for it in tmp_path.iterdir() if "there" in it.name] == ["there"]


def test_a_copy_of_one_that_is_locked_ends_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "_PATIENCE", 0.3)
    older(str(tmp_path / "journal.db"))
    with (
        closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as somebody,
        closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None, timeout=0)) as connection,
    ):
        somebody.execute("BEGIN EXCLUSIVE")
        with pytest.raises(errors.Locked):
            backup.copy(connection, str(tmp_path / "copy.db"))
    assert [it.name for it in tmp_path.iterdir() if "copy" in it.name] == []


def test_what_is_read_and_what_is_written_fail_with_errors_of_their_own(
    journal: Journal, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(journal.path)) as connection, pytest.raises(OSError, match="No such file"):
        backup.copy(connection, str(tmp_path / "nowhere" / "copy.db"))
    (tmp_path / "damaged.db").write_bytes(b"no database" * 1000)
    with (
        closing(sqlite3.connect(tmp_path / "damaged.db")) as connection,
        pytest.raises(sqlite3.DatabaseError, match="not a database"),
    ):
        backup.copy(connection, str(tmp_path / "copy.db"))
    assert [it.name for it in tmp_path.iterdir() if "copy" in it.name] == []


def test_a_migration_keeps_the_journal_as_it_was(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    older(path)
    Journal(path).close()
    assert version_of(path) == schema.VERSION
    (kept,) = backup.kept(path)
    assert kept == f"{path}.backup-{schema.VERSION - 1}"
    assert version_of(kept) == schema.VERSION - 1


def test_a_journal_that_needs_no_migration_is_not_copied(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    Journal(path).close()
    Journal(path).close()
    assert backup.kept(path) == []


def test_a_migration_that_fails_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "journal.db")
    Journal(path).close()
    wrong = schema.Migration(
        "ALTER TABLE fact ADD COLUMN a TEXT; ALTER TABLE of_nobody ADD COLUMN a TEXT;", 1
    )
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, wrong))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema.migrate, "__defaults__", (schema.VERSION,))
    for _ in range(3):
        with pytest.raises(NotMigrated, match="cannot migrate"):
            Journal(path)
    monkeypatch.undo()
    assert version_of(path) == schema.VERSION
    with Journal(path) as journal:
        journal.change(lambda ledger: reserve(ledger, "web", 2)).result(5)
    # However often it was tried.
    assert backup.kept(path) == [f"{path}.backup-{schema.VERSION}"]


def test_of_many_copies_the_last_stay(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    Journal(path).close()
    with closing(sqlite3.connect(path)) as connection:
        for number in range(1, 13):
            backup.keep(connection, path, number)
    assert [os.path.basename(it) for it in backup.kept(path)] == [
        f"journal.db.backup-{number}" for number in (8, 9, 10, 11, 12)
    ]


def test_what_a_copy_that_was_cut_off_has_left_is_taken_away_by_the_next(
    journal: Journal, tmp_path: Path
) -> None:
    half = tmp_path / ".copy.db.netloom-new"
    half.write_bytes(b"half of it")
    (tmp_path / ".copy.db.netloom-new-journal").write_bytes(b"how to undo that")
    with closing(sqlite3.connect(journal.path)) as connection:
        backup.copy(connection, str(tmp_path / "copy.db"))
    assert sorted(it.name for it in tmp_path.glob("*copy*") if it.is_file()) == ["copy.db"]


def test_of_two_copies_to_one_file_one_is_told_of_the_other(journal: Journal, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.db")
    with closing(sqlite3.connect(journal.path)) as connection:
        with replacing(target) as spare:
            Path(spare).write_text("the first")
            with pytest.raises(OSError, match="another process is writing it"):
                backup.copy(connection, target)
        assert Path(target).read_text() == "the first"
        backup.copy(connection, target)
    assert version_of(target) == schema.VERSION


def test_copies_to_one_file_at_once_leave_a_whole_one(journal: Journal, tmp_path: Path) -> None:
    """One that has just been given its name is not written over by who had opened it before."""
    target = str(tmp_path / "copy.db")

    def again(_: int) -> bool:
        with closing(sqlite3.connect(journal.path)) as connection:
            try:
                backup.copy(connection, target)
            except OSError as error:
                assert error.errno == errno.EBUSY
                return False
            return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(again, range(100)))
    assert any(done)
    assert version_of(target) == schema.VERSION
    assert sorted(it.name for it in tmp_path.glob("*copy*")) == ["copy.db"]
