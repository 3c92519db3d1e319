"""A journal whose file is taken away while it is open: none of it is lost, nothing else is touched."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal import Journal
from netloom.journal.file import as_it_is
from netloom.journal.moved_file import is_rescued, remove_empty_log, rescued

pytestmark = pytest.mark.unit


def write(journal: Journal, value: str) -> None:
    journal.change(lambda ledger: ledger.set_fact("written", value)).result()


def written(path: str | Path) -> str | None:
    """By the file alone, whatever log lies beside it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        row = connection.execute("SELECT value FROM fact WHERE name = 'written'").fetchone()
    return None if row is None else row[0]


def saved(journal: Journal) -> None:
    journal.save()
    journal.ask(lambda _: None).result()


def moved_away(journal: Journal) -> Path:
    to = Path(journal.path).with_name("moved.db")
    os.rename(journal.path, to)
    return to


def beside(path: str) -> list[str]:
    return sorted(it for it in os.listdir(os.path.dirname(path)) if it.startswith("journal.db-"))


def test_a_moved_file_is_whole_when_the_journal_is_closed(path: str) -> None:
    with Journal(path) as journal:
        write(journal, "before")
        moved = moved_away(journal)
        write(journal, "after")
        assert written(moved) is None
    assert written(moved) == "after"
    assert beside(path) == []
    assert rescued(path) == []


def test_a_moved_file_is_whole_as_soon_as_that_was_seen(journal: Journal) -> None:
    write(journal, "before")
    moved = moved_away(journal)
    assert (journal.is_in_place(), journal.where()) == (False, str(moved))
    saved(journal)
    assert written(moved) == "before"
    assert os.stat(f"{journal.path}-wal").st_size == 0


def test_who_reads_it_does_not_keep_it_from_being_whole(journal: Journal) -> None:
    write(journal, "before")
    with closing(as_it_is(journal.path)[0]) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM fact").fetchone()
        moved = moved_away(journal)
        saved(journal)
        assert written(moved) == "before"


def test_a_file_that_is_put_back_goes_on(path: str) -> None:
    with Journal(path) as journal:
        moved = moved_away(journal)
        write(journal, "away")
        saved(journal)
        os.rename(moved, path)
        assert journal.is_in_place()
        write(journal, "back")
        with closing(as_it_is(path)[0]) as reader:
            assert reader.execute("SELECT value FROM fact WHERE name = 'written'").fetchone() == ("back",)
    assert written(path) == "back"
    assert beside(path) == []


@pytest.mark.parametrize("is_seen", [False, True])
def test_another_file_in_its_place_is_not_touched(path: str, tmp_path: Path, is_seen: bool) -> None:
    with Journal(str(tmp_path / "other" / "journal.db")) as other:
        write(other, "theirs")
    content = Path(other.path).read_bytes()
    with Journal(path) as journal:
        write(journal, "ours")
        moved = moved_away(journal)
        Path(path).write_bytes(content)
        if is_seen:
            saved(journal)
        write(journal, "ours, later")
        journal.look(lambda ledger: ledger.count())
    assert Path(path).read_bytes() == content
    assert written(moved) == "ours, later"
    with Journal(path) as journal:  # which takes an empty log for what it is
        assert journal.ask(lambda ledger: ledger.fact("written")).result() == "theirs"


def test_of_a_file_that_was_removed_a_copy_is_kept(path: str) -> None:
    with Journal(path) as journal:
        write(journal, "before")
        os.unlink(path)
        assert journal.where() == ""
        saved(journal)
        assert journal.where() == f"{path}.rescued-1"
        assert written(journal.where()) == "before"
        write(journal, "after")
    assert written(f"{path}.rescued-1") == "after"
    assert rescued(path) == [f"{path}.rescued-1"]
    assert beside(path) == []


def test_the_copy_of_one_that_was_removed_replaces_no_other(path: str) -> None:
    for number in range(1, 12):
        with Journal(path) as journal:
            write(journal, str(number))
            os.unlink(path)
    assert [written(it) for it in rescued(path)] == [str(number) for number in range(1, 12)]


def test_a_copy_that_cannot_be_kept_is_no_reason_not_to_end(path: str) -> None:
    with Journal(path) as journal:
        write(journal, "before")
        for it in os.scandir(os.path.dirname(path)):
            os.unlink(it)
        os.rmdir(os.path.dirname(path))
    assert rescued(path) == []


@pytest.mark.parametrize("name", ["rescued-1", "rescued-12"])
def test_a_copy_is_known_by_its_name(name: str) -> None:
    assert is_rescued(f"/x/journal.db.{name}", "/x/journal.db")
    assert not is_rescued(f"/x/journal.db.{name}-wal", "/x/journal.db")
    assert not is_rescued(f"/y/journal.db.{name}", "/x/journal.db")


def test_a_log_with_something_in_it_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    for ending in ("-wal", "-shm"):
        Path(path + ending).write_bytes(b"all that is left")
    remove_empty_log(path)
    assert beside(path) == ["journal.db-shm", "journal.db-wal"]
    Path(f"{path}-wal").write_bytes(b"")
    remove_empty_log(path)
    assert beside(path) == []


_MOVED = """
import os, sys
from netloom.journal import Journal
path, moved = sys.argv[1:]
journal = Journal(path)
journal.change(lambda ledger: ledger.set_fact("written", "before")).result()
os.rename(path, moved)
journal.close()
"""


def test_killed_when_the_log_was_folded_the_moved_file_is_whole_and_the_log_empty(
    path: str, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.db"
    env = {**os.environ, "NETLOOM_FAILPOINT": "moved-file.checkpointed"}
    done = subprocess.run([sys.executable, "-c", _MOVED, path, str(moved)], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert written(moved) == "before"
    assert os.stat(f"{path}-wal").st_size == 0


@pytest.mark.parametrize("endings", [(), ("-wal",), ("-wal", "-shm")])
def test_nothing_is_left_beside_a_copy_that_is_read(path: str, tmp_path: Path, endings: tuple[str]) -> None:
    """One that was moved away, alone or with its log: all that is there is read, and stays as it is."""
    copy = tmp_path / "copy.db"
    with Journal(path) as journal:
        write(journal, "in the log")
        for it in ("", *endings):
            Path(f"{copy}{it}").write_bytes(Path(path + it).read_bytes())
    before = {
        it.name: it.read_bytes() for it in tmp_path.iterdir() if it.is_file() and it.suffix != ".db-shm"
    }
    connection, _ = as_it_is(str(copy), is_copy=True)
    with closing(connection):
        found = connection.execute("SELECT value FROM fact WHERE name = 'written'").fetchone()
    assert found == (("in the log",) if endings else None)
    after = {it.name: it.read_bytes() for it in tmp_path.iterdir() if it.is_file() and it.suffix != ".db-shm"}
    assert after == before
    assert Path(f"{copy}-shm").exists() == ("-shm" in endings)
