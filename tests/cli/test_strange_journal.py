"""A journal with pages that are damaged, or something else at its path: each command says so, at once."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal.errors import NotAFile
from netloom.journal.file import as_it_is, opened

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

PAGE = 4096
# Whatever reads the journal. What they say of one that is whole is of other tests.
READERS = (
    ("check",), ("check", "--repair"), ("check", "netloom"), ("inspect", "web"), ("gc", "--dry-run"),
    ("explain", "web"), ("explain", "10.78.0.2"), ("events",), ("pools",), ("pools", "--audit"), ("ports",),
    ("ls",), ("plan", "show", "netloom"),
)  # fmt: skip


@pytest.fixture
def left(machine: Machine) -> Machine:
    """A node with an attachment, whose agent was stopped."""
    machine.attach(machine.node.container())
    assert machine.run("down").status == 0
    return machine


def codes(machine: Machine, command: str) -> set[str]:
    return {it["code"] for it in machine.run(command, "--json").document["findings"]}


def test_pages_that_are_damaged_are_named_by_whoever_reads_them(left: Machine) -> None:
    whole = left.journal.read_bytes()
    left.journal.write_bytes(whole[:PAGE] + b"\xa5" * 3 * PAGE + whole[4 * PAGE :])
    for words in (("check",), ("check", "--repair"), ("check", "netloom"), ("ls",), ("gc", "--dry-run")):
        outcome = left.run(*words, "--json")
        assert (outcome.status, outcome.stdout) == (1, "")
        assert outcome.error["code"] == "journal-damaged", words
    assert "journal-damaged" in codes(left, "doctor")


def test_whatever_page_is_damaged_no_command_ends_without_a_word(left: Machine) -> None:
    """`run` refuses tracebacks. What does not read the page need not know of it."""
    whole = left.journal.read_bytes()
    said = set()
    for page in range(1, len(whole) // PAGE):
        left.journal.write_bytes(whole[: page * PAGE] + b"\xa5" * PAGE + whole[(page + 1) * PAGE :])
        for words in (("check",), ("explain", "web")):
            outcome = left.run(*words, "--json")
            if outcome.stderr:
                said.add(outcome.error["code"])
    assert said == {"journal-damaged"}


@pytest.mark.parametrize(
    ("table", "others"), [("attachment", "operation"), ("operation", "attachment"), ("address", "operation")]
)
def test_rows_of_another_table_are_damage_and_no_news(left: Machine, table: str, others: str) -> None:
    """As where a copy was put beside the log of another file: every page is sound, in the wrong place."""
    whole = bytearray(left.journal.read_bytes())
    with closing(sqlite3.connect(left.journal)) as connection:
        pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'"))
    target, source = ((pages[name] - 1) * PAGE for name in (table, others))
    whole[target : target + PAGE] = whole[source : source + PAGE]
    left.journal.write_bytes(whole)
    said = set()
    for words in READERS:
        outcome = left.run(*words, "--json")
        if outcome.stderr:
            said.add(outcome.error["code"])
    assert said <= {"journal-damaged", "not-attached", "not-found"}
    assert "journal-damaged" in said
    assert "journal-damaged" in codes(left, "doctor")
    assert "journal-damaged" in codes(left, "status")
    assert left.run("down", "--purge", "--yes").status == 0
    assert not left.journal.exists()


def overwrite(journal: Path) -> None:
    """As a disk does it: the same files, with other bytes in them."""
    for path in (journal, journal.with_name(f"{journal.name}-wal")):
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            file.write(random.Random(7).randbytes(size))


def test_damage_under_an_agent_is_told_until_a_copy_is_restored(machine: Machine, tmp_path: Path) -> None:
    """What the agent writes afterwards may make the file look whole to who reads little of it."""
    container = machine.node.container()
    machine.attach(container)
    assert machine.run("journal", "backup", str(tmp_path / "copy.db")).status == 0
    overwrite(machine.journal)
    assert "journal-damaged" in codes(machine, "status")
    machine.cni("del", container)
    machine.node.container()
    for _ in range(2):
        outcome = machine.run("status", "--json")
        assert outcome.status == 1
        assert "journal-damaged" in {it["code"] for it in outcome.document["findings"]}
    assert machine.cni("add", machine.node.container()).status != 0
    down = machine.run("down")
    assert "is damaged" in down.stderr
    assert "`netloom journal restore FILE`" in down.stderr
    assert machine.run("journal", "restore", str(tmp_path / "copy.db")).status == 0
    machine.brought_up()
    assert "journal-damaged" not in codes(machine, "status")


def test_down_names_the_copy_that_a_damaged_journal_can_be_restored_from(left: Machine) -> None:
    copy = left.journal.with_name("journal.db.rescued-1")
    copy.write_bytes(left.journal.read_bytes())
    whole = left.journal.read_bytes()
    left.journal.write_bytes(whole[:PAGE] + b"\xa5" * 3 * PAGE + whole[4 * PAGE :])
    document = left.run("down", "--json").document["journal"]
    assert (document["path"], document["restore"]) == (str(left.journal), str(copy))
    assert document["damage"]
    assert f"`netloom journal restore {copy}`" in left.run("down").stderr


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("put", [loop, os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_not_opened(left: Machine, put: object) -> None:
    left.journal.unlink()
    assert callable(put)
    put(left.journal)
    for words in READERS:
        outcome = left.run(*words, "--json")
        assert (outcome.status, outcome.stdout) == (1, "")
        assert outcome.error["code"] == "journal-unreadable", words
        assert str(left.journal) in outcome.error["error"]
    assert "journal-unreadable" in codes(left, "status")
    assert "journal-unreadable" in codes(left, "doctor")
    assert left.run("__complete", "netloom", "inspect", "").status == 0
    assert left.up().status == 1


def test_a_wal_that_is_a_fifo_is_not_opened_either(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    opened(str(path)).close()
    as_it_is(str(path))[0].close()
    Path(f"{path}-wal").unlink(missing_ok=True)
    os.mkfifo(f"{path}-wal")
    for use in (opened, as_it_is):
        with pytest.raises(NotAFile, match=r"journal\.db-wal is a FIFO, not a regular file"):
            use(str(path))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE operation SET started = 1e300",
        "UPDATE operation SET duration = 9e999",
        "UPDATE attachment SET created_at = 1e300",
        "UPDATE attachment SET created = 9e999",
    ],
)
def test_a_time_that_no_calendar_has_is_damage(left: Machine, change: str) -> None:
    with closing(sqlite3.connect(left.journal)) as connection:
        connection.execute(change)
        connection.commit()
    assert "journal-damaged" in {it["code"] for it in verified(left)}
    for words in READERS:
        left.run(*words)  # which refuses tracebacks
    assert "journal-damaged" in codes(left, "doctor")


@pytest.mark.parametrize("phases", ["null", '{"a":"b"}', "[", ""])
def test_an_operation_whose_phases_cannot_be_read_is_shown_without_them(left: Machine, phases: str) -> None:
    with closing(sqlite3.connect(left.journal)) as connection:
        connection.execute("UPDATE operation SET phases = ?", (phases,))
        connection.commit()
    assert {it["code"] for it in verified(left)} == {"operation-unreadable"}
    (container,) = {it["containerID"] for it in left.listed()}
    outcome = left.run("explain", container, "--json")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert left.run("events").status == 0


def verified(machine: Machine) -> list[dict[str, str]]:
    found: list[dict[str, str]] = machine.run("journal", "verify", "--json").document["findings"]
    return found
