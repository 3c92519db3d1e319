"""A journal that is taken away under its agent: `down` says what that means, and all can be put back."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


@pytest.fixture
def attached(machine: Machine) -> Machine:
    for _ in range(2):
        machine.attach(machine.node.container())
    return machine


def beside(path: Path) -> list[str]:
    return sorted(it.name for it in path.parent.iterdir() if it.name.startswith(f"{path.name}-"))


def test_a_journal_that_was_moved_is_put_back_whole(attached: Machine) -> None:
    before = attached.listed()
    moved = attached.journal.with_name("moved.db")
    attached.journal.rename(moved)
    outcome = attached.run("down")
    assert "containers keep their networks; DELs are queued" not in outcome.stdout
    assert f"`netloom journal restore {moved}`" in outcome.stderr
    assert beside(attached.journal) == []
    done = attached.run("journal", "restore", "--json", str(moved)).document
    assert (done["counts"]["attachments"], done["replaced"], done["unknown_links"]) == (2, None, [])
    assert beside(moved) == []
    attached.brought_up()
    assert attached.listed() == before


def test_status_and_down_name_where_it_is_by_now(attached: Machine) -> None:
    moved = attached.journal.with_name("moved.db")
    attached.journal.rename(moved)
    (finding,) = (
        it for it in attached.run("status", "--json").document["findings"] if it["code"] == "journal-gone"
    )
    assert f"netloom journal restore {moved}" in finding["next"]
    lost = attached.run("down", "--json").document["journal"]
    assert lost == {"path": str(attached.journal), "restore": str(moved)}


def test_a_journal_that_was_removed_is_kept_by_the_agent(attached: Machine) -> None:
    before = attached.listed()
    attached.journal.unlink()
    lost = attached.run("down", "--json").document["journal"]
    assert lost == {"path": str(attached.journal), "restore": f"{attached.journal}.rescued-1"}
    outcome = attached.run("ls", "--json")
    assert (outcome.error["code"], outcome.status) == ("journal-gone", 1)
    assert lost["restore"] in outcome.error["next"]
    assert attached.run("down", "--json").document["journal"] == lost
    assert attached.run("journal", "restore", lost["restore"]).status == 0
    attached.brought_up()
    assert attached.listed() == before


def test_after_an_empty_one_was_begun_the_copy_that_knows_more_is_named(attached: Machine) -> None:
    before = attached.listed()
    attached.journal.unlink()
    attached.run("down")
    rescued = f"{attached.journal}.rescued-1"
    assert any(f"`netloom journal restore {rescued}`" in it for it in attached.brought_up()["warnings"])
    found = attached.run("status", "--json").document["findings"]
    (finding,) = (it for it in found if it["code"] == "journal-restorable")
    assert (finding["subject"], "has 2 of 2 links" in finding["text"]) == (rescued, True)
    attached.run("down")
    assert attached.run("journal", "restore", rescued).status == 0
    attached.brought_up()
    assert attached.listed() == before
    assert attached.run("status", "--json").document["findings"] == []


def test_an_older_copy_than_one_that_was_kept_needs_force(attached: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert attached.run("journal", "backup", str(copy)).status == 0
    attached.attach(attached.node.container())
    for _ in range(2):  # the second time, of what was restored
        attached.journal.unlink()
        attached.run("down")
        rescued = attached.run("down", "--json").document["journal"]["restore"]
        refused = attached.run("journal", "restore", "--json", str(copy))
        assert (refused.status, refused.error["code"]) == (1, "journal-older")
        assert f"`netloom journal restore {rescued}`" in refused.error["next"]
        assert not attached.journal.exists()
        assert attached.run("journal", "restore", rescued).status == 0
        attached.brought_up()
        assert len(attached.listed()) == 3
    attached.run("down")
    assert rescued.endswith("rescued-2")
    older = attached.run("journal", "restore", "--json", f"{attached.journal}.rescued-1")
    assert older.error["code"] == "journal-older"
    assert attached.run("journal", "restore", "--force", str(copy)).status == 0


def test_what_was_put_in_its_place_stays_as_it_is(attached: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert attached.run("journal", "backup", str(copy)).status == 0
    attached.attach(attached.node.container())
    moved = attached.journal.with_name("moved.db")
    attached.journal.rename(moved)
    attached.journal.write_bytes(copy.read_bytes())
    outcome = attached.run("down")
    assert f"{attached.journal} was replaced while the agent ran" in outcome.stderr
    assert attached.journal.read_bytes() == copy.read_bytes()
    assert attached.run("journal", "restore", str(moved)).status == 0
    attached.brought_up()
    assert len(attached.listed()) == 3


def test_a_journal_in_its_place_is_not_spoken_of(attached: Machine) -> None:
    outcome = attached.run("down")
    assert "containers keep their networks" in outcome.stdout
    assert outcome.stderr == ""


def test_a_purge_leaves_no_copy(attached: Machine) -> None:
    attached.journal.unlink()
    assert attached.run("down", "--purge", "--yes").status == 0
    assert not attached.journal.parent.exists()


def test_after_a_kill_the_log_is_told_of_and_makes_the_moved_file_whole(attached: Machine) -> None:
    """Killed before it could see that the file was moved."""
    process = attached.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    moved = attached.journal.with_name("moved.db")
    attached.journal.rename(moved)
    os.kill(process, signal.SIGKILL)
    assert eventually(lambda: attached.agent is None)
    assert Path(f"{attached.journal}-wal").stat().st_size > 0
    outcome = attached.run("journal", "restore", str(moved))
    aside = Path(f"{attached.journal}.replaced-1")
    assert f"`netloom journal restore {aside}`" in outcome.stderr
    aside.write_bytes(moved.read_bytes())
    assert attached.run("journal", "restore", str(aside)).status == 0
    attached.brought_up()
    assert len(attached.listed()) == 2


def test_links_that_a_restored_journal_does_not_know_are_told_of(attached: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert attached.run("journal", "backup", str(copy)).status == 0
    known = set(attached.node.links())
    attached.attach(attached.node.container())
    (unknown,) = set(attached.node.links()) - known
    attached.run("down")
    outcome = attached.run("journal", "restore", "--force", str(copy))
    assert outcome.status == 0
    assert "1 link of netloom" in outcome.stderr
    assert "`netloom status`" in outcome.stderr
    done = attached.run("journal", "restore", "--json", str(copy)).document
    assert done["unknown_links"] == [unknown]


def test_a_refused_restore_leaves_nothing_beside_the_file(attached: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert attached.run("journal", "backup", str(copy)).status == 0
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    attached.attach(attached.node.container())
    assert attached.run("journal", "restore", "--json", str(copy)).error["code"] == "journal-in-use"
    attached.run("down")
    assert attached.run("journal", "restore", "--json", str(copy)).error["code"] == "journal-not-empty"
    assert attached.run("journal", "verify", str(copy)).status == 0
    assert [it.name for it in tmp_path.glob("copy.db*")] == ["copy.db"]
    assert beside(attached.journal) == []


def remove_all(journal: Path) -> None:
    for it in journal.parent.glob("journal.db*"):
        it.unlink()


def move_the_lock_and_remove_the_rest(journal: Path) -> None:
    lock = Path(f"{journal}.lock")
    lock.rename(lock.with_name("lock"))
    remove_all(journal)


@pytest.mark.parametrize("lose", [remove_all, move_the_lock_and_remove_the_rest])
def test_an_agent_whose_lock_is_gone_with_its_journal_still_has_it(
    attached: Machine, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    before = attached.listed()
    copy, document = tmp_path / "copy.db", tmp_path / "journal.json"
    assert attached.run("journal", "backup", str(copy)).status == 0
    assert attached.run("journal", "export", str(document)).status == 0
    lose(attached.journal)
    try:
        for words in (("restore", str(copy)), ("import", str(document))):
            refused = attached.run("journal", *words, "--json")
            assert (refused.status, refused.error["code"]) == (1, "journal-in-use")
            assert not attached.journal.exists()
        listed = attached.run("ls", "--json").error
        assert (listed["code"], "`netloom down`" in listed["next"]) == ("journal-gone", True)
    finally:
        lost = attached.run("down", "--json").document["journal"]
    assert lost == {"path": str(attached.journal), "restore": f"{attached.journal}.rescued-1"}
    assert attached.run("journal", "restore", lost["restore"]).status == 0
    attached.brought_up()
    assert attached.listed() == before


def test_the_journal_that_a_restore_has_replaced_is_named_if_it_knows_more(
    attached: Machine, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    assert attached.run("journal", "backup", str(copy)).status == 0
    attached.attach(attached.node.container())
    before = attached.listed()
    attached.run("down")
    assert attached.run("journal", "restore", "--force", str(copy)).status == 0
    replaced = f"{attached.journal}.replaced-1"
    assert any(f"`netloom journal restore {replaced}`" in it for it in attached.brought_up()["warnings"])
    found = attached.run("status", "--json").document["findings"]
    assert [it["subject"] for it in found if it["code"] == "journal-restorable"] == [replaced]
    attached.run("down")
    assert attached.run("journal", "restore", replaced).status == 0
    assert attached.brought_up()["warnings"] == []
    assert attached.listed() == before


def test_without_a_copy_up_counts_the_links_that_the_new_journal_does_not_know(attached: Machine) -> None:
    attached.run("down")
    remove_all(attached.journal)
    for _ in range(2):
        warnings = attached.brought_up()["warnings"]
        (told,) = (it for it in warnings if "not in the journal (orphaned)" in it)
        assert told.startswith("2 links are")
        assert "`netloom status`" in told
