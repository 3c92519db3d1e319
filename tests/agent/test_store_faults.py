"""A disk that fails: no ADD that nobody will remember, no DEL that fails, no loss when it is well again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from netloom.journal import Journal, Unwritable

from ..fixtures.faults import BreakableDisk, JumpingClock, SmallDisk, small_disk
from ..fixtures.node import NETLOOM, Node, eventually
from ..journal.rows import reserve

pytestmark = pytest.mark.kernel


@pytest.fixture
def disk(node: Node) -> Iterator[SmallDisk]:
    with small_disk(node) as mounted:
        node.start("--tick", "0.1")
        yield mounted


@pytest.fixture
def broken(node: Node, tmp_path: Path) -> BreakableDisk:
    """A disk under an agent that serves; it breaks when the test says so."""
    made = BreakableDisk(tmp_path)
    node.start("--tick", "0.1", environment=made.environment)
    return made


def is_consistent(node: Node) -> bool:
    return node.audit() == [] and len(node.links()) == len(node.ledger().places())


# Full.


def test_add_on_a_full_disk_is_code_5_and_leaves_nothing(node: Node, disk: SmallDisk) -> None:
    node.add(node.container())
    disk.fill()
    done = node.plugin("ADD", node.container())
    assert done.code == 5
    assert len(node.links()) == 1
    disk.empty()
    assert is_consistent(node)


def test_status_on_a_full_disk_is_code_50_and_says_why(node: Node, disk: SmallDisk) -> None:
    disk.fill()
    done = node.plugin("STATUS")
    assert done.code == 50
    assert "full" in done.document["msg"]
    disk.empty()
    assert eventually(lambda: node.plugin("STATUS").status == 0)


def test_del_on_a_full_disk_succeeds_and_takes_the_link(node: Node, disk: SmallDisk) -> None:
    container = node.container()
    node.add(container)
    disk.fill()
    node.delete(container)
    assert node.links() == []
    disk.empty()
    assert eventually(lambda: node.ledger().places() == [])
    assert eventually(lambda: node.intents() == [])
    assert is_consistent(node)


def test_a_del_that_is_repeated_on_a_full_disk_is_one_intent(node: Node, disk: SmallDisk) -> None:
    container = node.container()
    node.add(container)
    for _ in range(3):
        disk.fill()  # what the journal has just given back, too
        node.delete(container)
        assert len(node.intents()) <= 1
    # There is one as long as the journal could not take it.
    assert eventually(lambda: len(node.intents()) == len(node.ledger().of_container(container)))


def test_a_del_of_what_never_was_on_a_full_disk_leaves_no_intent(node: Node, disk: SmallDisk) -> None:
    disk.fill()
    node.delete("nobody")
    assert node.intents() == []


def test_what_was_deleted_on_a_full_disk_does_not_come_back(node: Node, disk: SmallDisk) -> None:
    """Its row is still there; but nobody repairs what the runtime was told is gone."""
    container = node.container()
    node.add(container)
    disk.fill()
    node.delete(container)
    assert not eventually(lambda: node.links() != [], patience=1.5)


def test_add_after_a_del_on_a_full_disk_is_not_the_old_attachment(node: Node, disk: SmallDisk) -> None:
    """That one waits to be deleted: whoever gets it would lose it as soon as there is space again."""
    container = node.container()
    node.add(container)
    disk.fill()
    node.delete(container)
    assert node.plugin("ADD", container).code == 5
    disk.empty()
    assert eventually(lambda: node.intents() == [])
    node.add(container)
    assert eventually(lambda: node.intents() == [])
    assert len(node.links()) == 1
    assert is_consistent(node)


def explained(node: Node, word: str) -> Any:
    done = subprocess.run(
        node.command(str(NETLOOM), "explain", word, "--json"),
        env=node.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def test_an_add_that_a_full_disk_refused_is_explained_then_and_later(node: Node, disk: SmallDisk) -> None:
    container = node.container()
    disk.fill()
    assert node.plugin("ADD", container).code == 5
    disk.fill()  # what the journal has given back
    for _ in range(2):
        told = explained(node, container)
        assert [(it["verb"], it["code"]) for it in told["operations"] if it["verb"] == "ADD"] == [("ADD", 5)]
        assert "add-failed" in [it["code"] for it in told["findings"]]
        disk.empty()
        assert eventually(lambda: "ADD" in [it.verb for it in node.ledger().operations()])


def test_a_restart_on_a_full_disk_does_not_bring_back_what_was_deleted(node: Node, disk: SmallDisk) -> None:
    container = node.container()
    node.add(container)
    disk.fill()
    node.delete(container)
    node.kill()
    node.start("--tick", "0.1")
    disk.fill()
    assert node.plugin("ADD", container).code == 5
    assert node.links() == []
    disk.empty()
    assert eventually(lambda: node.ledger().places() == [])
    assert is_consistent(node)


def test_containers_keep_their_network_on_a_full_disk(node: Node, disk: SmallDisk) -> None:
    one, other = node.container(), node.container()
    node.add(one)
    address = node.add(other).addresses[0]
    disk.fill()
    node.plugin("ADD", node.container())
    assert node.ping(one, address)


def test_an_agent_stops_on_a_full_disk(node: Node, disk: SmallDisk) -> None:
    node.add(node.container())
    disk.fill()
    node.plugin("ADD", node.container())
    assert node.stop() == 0


def test_add_works_again_when_there_is_space(node: Node, disk: SmallDisk) -> None:
    container = node.container()
    node.add(node.container())
    disk.fill()
    assert node.plugin("ADD", container).code == 5
    disk.empty()
    node.add(container)
    assert is_consistent(node)


def test_a_disk_that_the_journal_itself_has_filled_is_no_end(node: Node) -> None:
    """Its log of changes is larger than what they come to."""

    def come_and_go(own: Journal, name: str) -> bool:
        try:
            own.change(lambda ledger: ledger.forget(reserve(ledger, name, 2), resting_since=1.0)).result(5)
        except Unwritable:
            return False
        return True

    with small_disk(node, "1m"), Journal(str(journal(node))) as own:
        came = [come_and_go(own, f"c{number}") for number in range(200)]
    assert 0 < came.count(False) < 20
    assert all(one or other for one, other in pairwise(came))


# Broken.


def test_add_on_a_broken_disk_is_code_5_and_leaves_nothing(node: Node, broken: BreakableDisk) -> None:
    node.add(node.container())
    broken.break_down()
    assert node.plugin("ADD", node.container()).code == 5
    assert len(node.links()) == 1
    broken.mend()
    assert eventually(lambda: is_consistent(node))


def test_del_on_a_broken_disk_succeeds_and_is_written_down_later(node: Node, broken: BreakableDisk) -> None:
    container = node.container()
    node.add(container)
    broken.break_down()
    node.delete(container)
    assert node.links() == []
    broken.mend()
    assert eventually(lambda: node.ledger().places() == [])
    assert is_consistent(node)


def test_a_del_that_is_written_down_later_is_one_event(node: Node, broken: BreakableDisk) -> None:
    """However many rounds have tried to write it down, and whichever part of a round does at last."""
    container = node.container()
    node.add(container)
    broken.break_down()
    node.delete(container)
    # The agent gives a heartbeat in each round, before it looks for what is queued.
    for _ in range(4):
        last = os.stat(node.socket).st_mtime_ns
        assert eventually(lambda last=last: os.stat(node.socket).st_mtime_ns != last)  # type: ignore[misc]
    broken.mend()
    assert eventually(lambda: node.intents() == [])
    assert node.stop() == 0
    verbs = [it.verb for it in node.ledger().operations() if it.container_id == container]
    assert sorted(verbs) in (["ADD", "DEL"], ["ADD", "DEL", "REPLAY"])


def test_status_on_a_broken_disk_is_code_50(node: Node, broken: BreakableDisk) -> None:
    broken.break_down()
    node.plugin("ADD", node.container())
    done = node.plugin("STATUS")
    assert done.code == 50
    assert "journal" in done.document["msg"]
    broken.mend()
    assert eventually(lambda: node.plugin("STATUS").status == 0)


def test_gc_on_a_broken_disk_fails_and_is_whole_later(node: Node, broken: BreakableDisk) -> None:
    for _ in range(3):
        node.add(node.container())
    config = node.config_with({"cni.dev/valid-attachments": []})
    broken.break_down()
    assert node.plugin("GC", config=config).code == 5
    broken.mend()
    assert node.plugin("GC", config=config).status == 0
    assert node.links() == []
    assert is_consistent(node)


def test_add_on_a_disk_that_keeps_nothing_is_code_5_and_leaves_nothing(
    node: Node, broken: BreakableDisk
) -> None:
    broken.take_without_keeping()
    assert node.plugin("ADD", node.container()).code == 5
    assert node.links() == []
    broken.mend()
    assert eventually(lambda: is_consistent(node))
    assert eventually(lambda: node.ledger().places() == [])


@pytest.mark.parametrize("mended", [True, False])
def test_add_that_a_disk_did_not_keep_does_not_come_back_with_the_next_agent(
    node: Node, broken: BreakableDisk, mended: bool
) -> None:
    """What it would have committed is in the file already, when the disk says that it is not."""
    container = node.container()
    broken.take_without_keeping()
    assert node.plugin("ADD", container).code == 5
    if mended:
        broken.mend()
    node.kill()
    node.start("--tick", "0.1")
    assert not eventually(lambda: node.links() != [], patience=1)
    assert node.ledger().places() == []
    assert is_consistent(node)


def test_what_a_disk_did_not_keep_is_written_anew_before_anything_follows(
    node: Node, broken: BreakableDisk, tmp_path: Path
) -> None:
    """The kernel says once that it failed, and then that all is well, though the disk never got it."""
    before, after = node.container(), node.container()
    node.add(before)
    broken.take_without_keeping()
    node.plugin("ADD", node.container())
    broken.mend()
    assert eventually(lambda: node.plugin("ADD", after).status == 0)
    without_wal = tmp_path / "journal.db"
    shutil.copy(journal(node), without_wal)
    with sqlite3.connect(without_wal) as connection:
        assert (before,) in connection.execute("SELECT container_id FROM attachment").fetchall()
    connection.close()


# Read-only.


def test_on_a_read_only_file_system_no_agent_starts_and_del_still_succeeds(node: Node) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.kill()
    subprocess.run(["mount", "--bind", node.state_dir, node.state_dir], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", node.state_dir], check=True)
        node.start(ready=False)
        assert node.wait() == 1
        node.delete(container)
        assert len(node.intents()) == 1
    finally:
        subprocess.run(["umount", node.state_dir], check=True)
    node.start()
    assert node.links() == []
    assert is_consistent(node)


# What is in the file.


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def journal(node: Node) -> Path:
    return node.state_dir / "journal.db"


def test_a_journal_of_a_later_version_is_refused_and_not_changed(node: Node) -> None:
    node.start()
    node.stop()
    with sqlite3.connect(journal(node)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("UPDATE fact SET value = '99' WHERE name = 'readable_by'")
    connection.close()
    before = digest(journal(node))
    node.start(ready=False)
    assert node.wait() == 1
    assert "99" in node.log()
    assert digest(journal(node)) == before


def test_a_database_of_somebody_else_is_refused_and_not_changed(node: Node) -> None:
    node.state_dir.mkdir()
    with sqlite3.connect(journal(node)) as connection:
        connection.execute("CREATE TABLE precious (thing)")
    connection.close()
    before = digest(journal(node))
    node.start(ready=False)
    assert node.wait() == 1
    assert digest(journal(node)) == before


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_file_that_is_no_database_is_refused_and_not_changed(node: Node, content: bytes) -> None:
    node.state_dir.mkdir()
    journal(node).write_bytes(content)
    node.start(ready=False)
    assert node.wait() == 1
    assert journal(node).read_bytes() == content


def test_an_empty_file_becomes_a_journal(node: Node) -> None:
    node.state_dir.mkdir()
    journal(node).touch()
    node.start()
    node.add(node.container())


@pytest.mark.parametrize("lost", [1, 100, 4096, 5000])
def test_of_a_wal_that_was_torn_the_whole_transactions_count(node: Node, lost: int) -> None:
    """Power failed while the last transaction was written: it never was, and all before it were."""
    node.start()
    first, last = node.container(), node.container()
    node.add(first)
    assert eventually(lambda: "ADD" in [it.verb for it in node.ledger().operations()])
    node.add(last)
    node.kill()
    wal = journal(node).with_name("journal.db-wal")
    os.truncate(wal, wal.stat().st_size - lost)
    node.start("--tick", "0.1")
    assert node.add(first).status == 0
    assert node.add(last).status == 0
    assert is_consistent(node)


def test_a_second_agent_on_the_journal_refuses_to_start(running: Node) -> None:
    other = str(running.directory / "other.sock")
    done = subprocess.run(
        running.command(str(NETLOOM), "agent", "--socket", other),
        env=running.environment(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert "in use" in done.stderr
    running.add(running.container())
    assert running.audit() == []


def damage(node: Node) -> None:
    """So that every question about attachments fails, also for who has the file open."""
    with closing(sqlite3.connect(journal(node), isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET rootpage = 987654 WHERE name = 'attachment'")
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(f"PRAGMA schema_version = {version + 1}")


@pytest.mark.parametrize("config", [True, False], ids=["with its network", "without it"])
def test_del_with_a_journal_that_was_damaged_under_its_agent_is_queued(node: Node, config: bool) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.kill()
    copy = journal(node).read_bytes()
    wal = journal(node).with_name("journal.db-wal").read_bytes()
    node.start()
    damage(node)
    assert node.plugin("ADD", node.container()).code == 5
    node.delete(container, None if config else b"{}")
    assert len(node.intents()) == 1
    # With a copy of the journal, it is done by the next agent.
    node.kill()
    journal(node).write_bytes(copy)
    journal(node).with_name("journal.db-wal").write_bytes(wal)
    node.start()
    assert eventually(lambda: node.intents() == [])
    assert node.links() == []
    assert is_consistent(node)


def test_rows_of_a_pool_that_is_no_longer_configured_can_be_deleted(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.delete(container, running.config(pools=[{"cidr": "172.20.0.0/24"}]))
    assert running.links() == []
    assert is_consistent(running)


# Time.


@pytest.mark.parametrize("seconds", [86400 * 365, -86400 * 365], ids=["forward", "back"])
def test_a_clock_that_jumps_does_not_end_an_addresss_rest(node: Node, tmp_path: Path, seconds: int) -> None:
    clock = JumpingClock(tmp_path)
    node.start(environment=clock.environment)
    config = node.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=400)
    container = node.container()
    node.add(container, config)
    node.delete(container, config)
    clock.jump(seconds)
    done = node.plugin("ADD", container, config)
    assert done.status == 1
    assert "resting" in done.message


@pytest.mark.parametrize("seconds", [86400 * 365, -86400 * 365], ids=["forward", "back"])
def test_a_clock_that_jumps_does_not_prolong_an_addresss_rest(
    node: Node, tmp_path: Path, seconds: int
) -> None:
    clock = JumpingClock(tmp_path)
    node.start(environment=clock.environment)
    config = node.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=5)
    container = node.container()
    node.add(container, config)
    node.delete(container, config)
    clock.jump(seconds)
    # Nothing else is free: a tenth of its rest is enough.
    assert eventually(lambda: node.plugin("ADD", container, config).status == 0)


def test_a_clock_that_jumps_does_not_shorten_the_grace_of_a_namespace(node: Node, tmp_path: Path) -> None:
    clock = JumpingClock(tmp_path)
    node.start("--tick", "0.1", "--grace", "60", environment=clock.environment)
    container = node.container()
    node.add(container)
    node.remove_container(container)
    clock.jump(86400)
    assert not eventually(lambda: node.ledger().places() == [], patience=1.5)


def test_a_clock_that_jumps_does_not_make_a_queued_del_older_or_younger(node: Node, tmp_path: Path) -> None:
    clock = JumpingClock(tmp_path)
    node.start(environment=clock.environment)
    container = node.container()
    node.add(container)
    node.kill()
    node.delete(container)
    clock.jump(-86400)
    node.start(environment=clock.environment)
    assert node.links() == []
    node.add(container)
    assert is_consistent(node)
