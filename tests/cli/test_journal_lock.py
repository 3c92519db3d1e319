"""Something else in the place of the journal's lock: no command waits for it, and who needs it says so."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from netloom.journal import InUse, Journal
from netloom.journal.errors import LockNotAFile
from netloom.journal.lock import holder, locked

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

# Whatever looks who has the journal, or reads it.
READERS: tuple[tuple[str, ...], ...] = (("status",), ("doctor",), ("ls",), ("journal", "verify"), ("down",))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def link_to_a_file(path: Path) -> None:
    (path.parent / "elsewhere").write_text("precious")
    path.symlink_to("elsewhere")


def device(path: Path) -> None:
    """Which gives no end of zeros."""
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


STRANGE = pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir, loop, link_to_a_file, device])


@pytest.fixture
def left(machine: Machine) -> Machine:
    """A node with an attachment, whose agent was stopped."""
    machine.attach(machine.node.container())
    assert machine.run("down").status == 0
    return machine


@pytest.fixture
def lock(left: Machine) -> Path:
    """Where the lock was."""
    path = Path(f"{left.journal}.lock")
    path.unlink()
    return path


@STRANGE
def test_it_is_not_opened_and_what_it_is_is_said(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "journal.db.lock")
    with pytest.raises(LockNotAFile, match=r"journal\.db\.lock is a"):
        locked(str(tmp_path / "journal.db"))
    if put is link_to_a_file:
        assert (tmp_path / "elsewhere").read_text() == "precious"


@STRANGE
def test_no_command_waits_for_it_and_the_agent_names_it(
    left: Machine, lock: Path, put: Callable[[Path], None], tmp_path: Path
) -> None:
    put(lock)
    for words in READERS:
        left.run(*words)  # which bears no wait and no traceback
    assert len(left.listed()) == 1
    assert left.run("journal", "export", str(tmp_path / "j.json")).status == 0
    for words in (("agent",), ("journal", "import", "--force", str(tmp_path / "j.json"))):
        outcome = left.run(*words, "--json")
        assert outcome.status == 1
        # An agent has log lines before it.
        assert '"journal-unreadable"' in outcome.stderr
        assert str(lock) in outcome.stderr
        assert "move it away" in outcome.stderr
    refused = left.up("--json")
    assert refused.status == 1
    assert any(str(lock) in line for line in refused.error["said"])
    assert len(left.listed()) == 1


@STRANGE
def test_once_it_is_moved_away_the_node_is_as_it_was(
    left: Machine, lock: Path, put: Callable[[Path], None]
) -> None:
    before = left.listed()
    put(lock)
    assert left.up().status == 1
    lock.rename(lock.with_name("moved"))
    left.brought_up()
    assert [it["addresses"] for it in left.listed()] == [it["addresses"] for it in before]


def test_a_purge_that_cannot_have_the_journal_says_why_and_keeps_it(left: Machine, lock: Path) -> None:
    os.mkfifo(lock)
    outcome = left.run("down", "--purge", "--yes", "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "journal-unreadable")
    assert left.journal.exists()
    lock.unlink()
    done = left.run("down", "--purge", "--yes")
    assert done.status == 0, done.stderr
    assert not left.node.state_dir.exists()


def test_an_agent_that_runs_is_served_by_the_lock_that_it_has(machine: Machine) -> None:
    """Somebody has put a FIFO in the lock's place under it."""
    lock = Path(f"{machine.journal}.lock")
    lock.rename(lock.with_name("moved"))
    os.mkfifo(lock)
    assert machine.run("status").status == 0
    machine.attach(machine.node.container())
    assert machine.brought_up()["agent"]["change"] == "kept"
    assert machine.run("down").status == 0


def test_the_second_to_take_a_journal_is_told_who_has_it(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    with Journal(path), pytest.raises(InUse, match=str(os.getpid())):
        locked(path)
    os.close(locked(path))


def test_a_lock_that_was_deleted_under_its_holder_is_still_held(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    with Journal(path):
        os.unlink(f"{path}.lock")
        assert holder(path) == os.getpid()
        for _ in range(2):  # the first leaves a lock of its own
            with pytest.raises(InUse, match=str(os.getpid())):
                locked(path)
    assert holder(path) is None
    os.close(locked(path))
