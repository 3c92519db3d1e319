"""A backup that fails says which of both files is wrong, the journal or the copy, and leaves none behind."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

PAGE = 4096


@pytest.fixture
def left(machine: Machine) -> Machine:
    """A node with an attachment, whose agent was stopped; all of its journal is in one file."""
    machine.attach(machine.node.container())
    assert machine.run("down").status == 0
    with closing(sqlite3.connect(machine.journal, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return machine


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory for copies, in which nothing is."""
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


def backed_up(machine: Machine, copy: Path, *words: str) -> Outcome:
    return machine.run("journal", "backup", str(copy), *words, "--json")


def assert_of_journal(machine: Machine, outcome: Outcome, copy: Path, code: str) -> None:
    assert (outcome.status, outcome.error["code"]) == (1, code)
    assert str(machine.journal) in outcome.error["error"]
    assert str(copy) not in outcome.error["error"]
    assert "`netloom journal verify`" in outcome.error["next"]


def assert_of_copy(machine: Machine, outcome: Outcome, copy: Path) -> None:
    assert (outcome.status, outcome.error["code"]) == (1, "file-unwritable")
    assert str(copy) in outcome.error["error"]
    assert str(machine.journal) not in outcome.error["error"]


# The journal is wrong.


def no_database(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 3 * PAGE])


def overwritten(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:PAGE] + b"\xa5" * 3 * PAGE + whole[4 * PAGE :])


def node_of_null(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))


DAMAGE = pytest.mark.parametrize("damage", [no_database, cut_off, overwritten])


@DAMAGE
def test_a_damaged_journal_is_named_and_no_copy_is_left(
    left: Machine, place: Path, damage: Callable[[Path], None]
) -> None:
    damage(left.journal)
    outcome = backed_up(left, place / "copy.db")
    assert_of_journal(left, outcome, place / "copy.db", "journal-damaged")
    assert list(place.iterdir()) == []


@DAMAGE
def test_a_damaged_journal_takes_not_the_place_of_a_sound_copy(
    left: Machine, place: Path, damage: Callable[[Path], None]
) -> None:
    """As for who makes one every night."""
    copy = place / "copy.db"
    assert backed_up(left, copy).status == 0
    before = copy.read_bytes()
    damage(left.journal)
    assert backed_up(left, copy, "--force").status == 1
    assert copy.read_bytes() == before
    assert list(place.iterdir()) == [copy]


def test_whatever_page_is_damaged_the_copy_is_not_blamed(left: Machine, place: Path) -> None:
    whole = left.journal.read_bytes()
    for page in range(len(whole) // PAGE):
        left.journal.write_bytes(whole[: page * PAGE] + b"\xa5" * PAGE + whole[(page + 1) * PAGE :])
        outcome = backed_up(left, place / "copy.db")
        assert_of_journal(left, outcome, place / "copy.db", "journal-damaged")
        assert list(place.iterdir()) == []


def test_a_journal_without_tables_is_named(left: Machine, place: Path) -> None:
    left.journal.write_bytes(b"")
    outcome = backed_up(left, place / "copy.db")
    assert_of_journal(left, outcome, place / "copy.db", "journal-unreadable")
    assert list(place.iterdir()) == []


def test_a_journal_that_somebody_has_locked_is_not_waited_for_without_end(left: Machine, place: Path) -> None:
    with closing(sqlite3.connect(left.journal, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        outcome = backed_up(left, place / "copy.db")
    assert_of_journal(left, outcome, place / "copy.db", "journal-unreadable")
    assert list(place.iterdir()) == []


# The copy cannot be written.


@pytest.fixture
def mounted(place: Path) -> Iterator[Callable[[str], Path]]:
    """Gives a file system in memory, with these options."""

    def mount(options: str) -> Path:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
        return place

    yield mount
    subprocess.run(["umount", "--lazy", place], check=False)


def test_a_disk_that_is_full_is_the_copys(left: Machine, mounted: Callable[[str], Path]) -> None:
    place = mounted("size=32k")
    outcome = backed_up(left, place / "copy.db")
    assert_of_copy(left, outcome, place / "copy.db")
    assert "full" in outcome.error["error"]
    assert list(place.iterdir()) == []


def test_a_disk_that_is_full_keeps_the_copy_that_was_there(
    left: Machine, mounted: Callable[[str], Path]
) -> None:
    copy = mounted("size=32k") / "copy.db"
    copy.write_text("precious")
    assert_of_copy(left, backed_up(left, copy, "--force"), copy)
    assert copy.read_text() == "precious"
    assert list(copy.parent.iterdir()) == [copy]


def test_a_disk_that_is_read_only_is_the_copys(left: Machine, mounted: Callable[[str], Path]) -> None:
    copy = mounted("ro") / "copy.db"
    outcome = backed_up(left, copy)
    assert_of_copy(left, outcome, copy)
    assert "Read-only" in outcome.error["error"]


def test_a_directory_that_is_missing_or_in_its_place_is_the_copys(left: Machine, place: Path) -> None:
    assert_of_copy(left, backed_up(left, place / "missing" / "copy.db"), place / "missing" / "copy.db")
    assert list(place.iterdir()) == []
    (place / "copy.db").mkdir()
    outcome = backed_up(left, place / "copy.db", "--force")
    assert (outcome.status, outcome.error["code"]) == (1, "file-exists")
    assert list(place.iterdir()) == [place / "copy.db"]


def test_beside_a_running_agent_a_sound_journal_is_copied(machine: Machine, place: Path) -> None:
    machine.attach(machine.node.container())
    assert backed_up(machine, place / "copy.db").document["counts"]["attachments"] == 1
    assert machine.run("journal", "verify", str(place / "copy.db")).status == 0


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("elsewhere"), node_of_null])
@pytest.mark.parametrize("command", ["backup", "export"])
def test_what_is_no_file_is_never_replaced(left: Machine, place: Path, put: Any, command: str) -> None:
    """With a file in place of a device, nobody would find the device any more."""
    target = place / "there"
    put(target)
    before = os.lstat(target)
    outcome = left.run("journal", command, "--force", str(target))
    assert outcome.status == 1
    assert os.path.samestat(os.lstat(target), before)
    assert os.listdir(place) == ["there"]
