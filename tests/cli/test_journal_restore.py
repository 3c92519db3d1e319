"""`netloom journal restore`: a copy in the place of the journal, whatever is there, and nothing lost."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


@pytest.fixture
def copied(machine: Machine, tmp_path: Path) -> tuple[Machine, Path]:
    """A node with two attachments, and a copy of its journal."""
    for _ in range(2):
        machine.attach(machine.node.container())
    copy = tmp_path / "copy.db"
    assert machine.run("journal", "backup", str(copy)).status == 0
    return machine, copy


def kill_agent(machine: Machine) -> None:
    """So that its log stays beside the journal."""
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGKILL)
    assert eventually(lambda: machine.agent is None)
    assert Path(f"{machine.journal}-wal").stat().st_size > 0


def is_well(machine: Machine) -> bool:
    """Once it is up again: its journal is whole, and is what the kernel has."""
    assert machine.up().status == 0
    assert machine.run("journal", "verify").status == 0
    return machine.run("check").status == 0 and machine.run("pools", "--audit").status == 0


def test_what_was_attached_is_known_again(copied: tuple[Machine, Path]) -> None:
    machine, copy = copied
    before = machine.listed()
    machine.run("down")
    with closing(sqlite3.connect(machine.journal)) as connection:
        connection.executescript("DELETE FROM address; DELETE FROM port; DELETE FROM attachment")
    done = machine.run("journal", "restore", "--json", str(copy)).document
    assert (done["path"], done["counts"]["attachments"]) == (str(machine.journal), 2)
    assert done["replaced"] == f"{machine.journal}.replaced-1"
    assert is_well(machine)
    assert machine.listed() == before


def test_the_log_of_an_agent_that_was_killed_is_not_mixed_with_it(copied: tuple[Machine, Path]) -> None:
    machine, copy = copied
    for _ in range(20):
        machine.attach(machine.node.container())
    kill_agent(machine)
    outcome = machine.run("journal", "restore", "--json", str(copy))
    assert (outcome.status, outcome.error["code"]) == (1, "journal-not-empty")
    assert machine.run("journal", "restore", "--force", str(copy)).status == 0
    assert not Path(f"{machine.journal}-wal").exists()
    assert machine.run("journal", "verify", "--json").document["counts"]["attachments"] == 2
    kept = machine.run("journal", "verify", "--json", f"{machine.journal}.replaced-1").document
    assert (kept["counts"]["attachments"], kept["findings"]) == (22, [])


def test_down_leaves_one_file_that_may_be_copied_over(copied: tuple[Machine, Path]) -> None:
    machine, copy = copied
    machine.attach(machine.node.container())
    kill_agent(machine)
    assert machine.run("down").status == 0
    assert not Path(f"{machine.journal}-wal").exists()
    assert machine.run("journal", "verify", "--json").document["counts"]["attachments"] == 3
    machine.journal.write_bytes(copy.read_bytes())
    assert machine.run("journal", "verify", "--json").document["counts"]["attachments"] == 2


def test_without_a_journal_the_log_of_the_one_that_is_gone_is_put_aside(copied: tuple[Machine, Path]) -> None:
    machine, copy = copied
    kill_agent(machine)
    machine.journal.unlink()
    done = machine.run("journal", "restore", "--json", str(copy)).document
    assert done["replaced"] == f"{machine.journal}.replaced-1-wal"
    assert is_well(machine)
    assert len(machine.listed()) == 2


def test_a_damaged_journal_is_kept_aside_and_needs_no_force(copied: tuple[Machine, Path]) -> None:
    machine, copy = copied
    machine.run("down")
    machine.journal.write_bytes(b"no database at all, by any means" * 100)
    assert machine.run("status", "--json").document["next"].count("netloom journal restore") == 1
    assert machine.run("journal", "restore", str(copy)).status == 0
    assert Path(f"{machine.journal}.replaced-1").read_bytes().startswith(b"no database")
    assert is_well(machine)


def test_a_journal_that_an_agent_has_stays(copied: tuple[Machine, Path]) -> None:
    machine, copy = copied
    outcome = machine.run("journal", "restore", "--json", str(copy))
    assert (outcome.status, outcome.error["code"]) == (1, "journal-in-use")
    assert len(machine.listed()) == 2


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\0" + b"\xa5" * 8192])
def test_what_is_no_sound_copy_changes_nothing(copied: tuple[Machine, Path], content: bytes) -> None:
    machine, copy = copied
    machine.run("down")
    before = machine.journal.read_bytes()
    copy.write_bytes(content)
    outcome = machine.run("journal", "restore", "--force", "--json", str(copy))
    assert (outcome.status, outcome.error["code"]) == (1, "journal-damaged")
    assert str(copy) in outcome.error["error"]
    assert machine.journal.read_bytes() == before
    assert not Path(f"{machine.journal}.replaced-1").exists()


def test_the_journal_itself_is_no_copy(copied: tuple[Machine, Path]) -> None:
    machine, _ = copied
    machine.run("down")
    assert machine.run("journal", "restore", str(machine.journal)).status == 2


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("step", ["restore.aside", "restore.done"])
def test_killed_at_any_step_there_is_a_journal_and_both_are_kept(
    copied: tuple[Machine, Path], step: str, is_damaged: bool
) -> None:
    machine, copy = copied
    machine.run("down")
    before = b"no database at all, by any means" * 100 if is_damaged else machine.journal.read_bytes()
    machine.journal.write_bytes(before)
    killed = machine.run("journal", "restore", str(copy), env={"NETLOOM_FAILPOINT": step})
    assert killed.status == -signal.SIGKILL
    assert machine.journal.exists()
    assert Path(f"{machine.journal}.replaced-1").exists()
    assert machine.run("journal", "restore", str(copy)).status == 0
    assert is_well(machine)
    assert len(machine.listed()) == 2
    assert machine.run("down", "--purge", "--yes").status == 0
    assert not machine.journal.parent.exists()
