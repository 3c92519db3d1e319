"""The journal: one writer, changes that are whole and durable when they are answered."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from netloom.journal import (
    Closed,
    Damaged,
    InUse,
    Journal,
    JournalError,
    Ledger,
    NewerSchema,
    Unwritable,
    in_memory,
    read_only,
    schema,
    search,
)

from .rows import SCOPE, attachment, ip, operation, reserve

pytestmark = pytest.mark.unit


def names(journal: Journal) -> list[str]:
    return journal.ask(lambda ledger: [it.key.container_id for it in ledger.places()]).result(5)


def reserving(name: str, number: int) -> Callable[[Ledger], int]:
    return lambda ledger: reserve(ledger, name, number)


@contextmanager
def busy(journal: Journal) -> Iterator[None]:
    """What is asked in the block waits, and comes to its turn together."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Ledger) -> None:
        begun.set()
        go_on.wait(5)

    answer = journal.ask(wait)
    begun.wait(5)
    try:
        yield
    finally:
        go_on.set()
        answer.result(5)


@contextmanager
def somebody_writing(journal: Journal) -> Iterator[None]:
    """Another process is in the middle of a transaction of its own; the journal does not wait long."""
    journal.ask(lambda ledger: ledger.connection.execute("PRAGMA busy_timeout = 20").close()).result(5)
    other = sqlite3.connect(journal.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


# Changes.


def test_a_change_that_was_answered_is_in_the_file(journal: Journal) -> None:
    journal.change(reserving("web", 2)).result(5)
    with sqlite3.connect(journal.path) as other:
        assert other.execute("SELECT container_id, state FROM attachment").fetchall() == [("web", "pending")]
    other.close()


def test_of_changes_that_go_together_one_that_fails_harms_no_other(journal: Journal) -> None:
    def fail(ledger: Ledger) -> None:
        reserve(ledger, "half", 9)
        raise ValueError("no")

    with busy(journal):
        first = journal.change(reserving("web", 2))
        failed = journal.change(fail)
        taken = journal.change(reserving("db", 2))
        last = journal.change(reserving("cache", 3))
    with pytest.raises(ValueError, match="no"):
        failed.result(5)
    with pytest.raises(JournalError, match="already held"):
        taken.result(5)
    assert first.result(5) != last.result(5)
    assert names(journal) == ["web", "cache"]
    assert journal.ask(lambda ledger: ledger.holder(SCOPE, ip(9))).result(5) is None


def test_a_question_sees_what_was_answered_before(journal: Journal) -> None:
    for number in range(2, 50):
        journal.change(reserving(f"c{number}", number)).result(5)
        assert journal.ask(Ledger.count).result(5)["pending"] == number - 1
        assert journal.look(Ledger.count)["pending"] == number - 1


def test_a_note_that_was_answered_is_in_the_file(journal: Journal) -> None:
    journal.note(reserving("web", 2)).result(5)
    with sqlite3.connect(journal.path) as other:
        assert other.execute("SELECT container_id FROM attachment").fetchall() == [("web",)]
    other.close()


def test_a_note_that_was_answered_survives_the_end_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    code = (
        "import os, signal, sys; from netloom.journal import Journal; from tests.journal.rows import reserve;"
        "Journal(sys.argv[1]).note(lambda ledger: reserve(ledger, 'web', 2)).result(5);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    with Journal(str(path)) as again:
        assert names(again) == ["web"]


def test_answers_can_be_awaited(journal: Journal) -> None:
    async def change() -> int:
        return await journal.change(reserving("web", 2))

    assert asyncio.run(change()) == 1


def test_a_change_whose_asker_no_longer_waits_happens_and_harms_nobody(journal: Journal) -> None:
    async def change() -> None:
        with busy(journal):
            asked = asyncio.ensure_future(_awaited(journal))
            await asyncio.sleep(0)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked

    asyncio.run(change())
    assert names(journal) == ["web"]


async def _awaited(journal: Journal) -> int:
    return await journal.change(reserving("web", 2))


def test_many_changes_from_many_threads_are_all_there(journal: Journal) -> None:
    def change(thread: int) -> None:
        for number in range(thread * 25, thread * 25 + 25):
            journal.change(reserving(f"c{number}", number)).result(5)

    threads = [threading.Thread(target=change, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(journal)) == 200


# Operations.


def test_an_operation_is_written_soon_though_nothing_changes(journal: Journal) -> None:
    journal.log(operation("web"))
    deadline = time.monotonic() + 5
    while not _operations(journal.path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _operations(journal.path) == ["web"]


def test_operations_are_written_before_the_journal_is_closed(path: str) -> None:
    with Journal(path) as journal:
        for number in range(100):
            journal.log(operation(f"c{number}"))
    assert len(_operations(path)) == 100


def test_what_was_logged_is_on_disk_when_a_flush_is_answered(journal: Journal) -> None:
    for number in range(1, 50):
        journal.log(operation("web"))
        journal.flush().result(10)
        assert len(_operations(journal.path)) == number


def test_a_flush_writes_nothing_if_nothing_waits(journal: Journal) -> None:
    journal.flush().result(10)
    told: list[bool] = []
    journal.timed = lambda _, durable: told.append(durable)
    journal.flush().result(10)
    assert told == []


def test_a_flush_says_that_the_disk_did_not_take_it(journal: Journal) -> None:
    with somebody_writing(journal):
        journal.log(operation("web"))
        with pytest.raises(JournalError):
            journal.flush().result(20)
    journal.flush().result(10)
    assert _operations(journal.path) == ["web"]


def test_operations_that_the_disk_did_not_take_are_written_later(journal: Journal) -> None:
    with somebody_writing(journal):
        journal.log(operation("web"))
        deadline = time.monotonic() + 5
        while not journal.trouble and time.monotonic() < deadline:
            time.sleep(0.02)
        assert journal.trouble
    deadline = time.monotonic() + 5
    while journal.trouble and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _operations(journal.path) == ["web"]


def _operations(path: str) -> list[str]:
    connection = read_only(path)
    try:
        return [it.container_id for it in Ledger(connection).operations(1000)]
    finally:
        connection.close()


# Trouble.


def test_a_change_that_the_disk_does_not_take_did_not_happen_and_is_told(journal: Journal) -> None:
    with somebody_writing(journal):
        with pytest.raises(Unwritable, match="cannot write"):
            journal.change(reserving("web", 2)).result(5)
        assert journal.trouble
        assert names(journal) == []
    journal.change(reserving("web", 2)).result(5)
    assert journal.trouble == ""
    assert names(journal) == ["web"]


class FailingToFold:
    """A connection whose disk does not keep what is folded into the file, once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.failed = False

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if "PASSIVE" in statement and not self.failed:
            self.failed = True
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def test_a_wal_that_could_not_be_folded_is_not_built_upon(journal: Journal, tmp_path: Path) -> None:
    failing = FailingToFold(journal._connection)
    journal._connection = failing  # type: ignore[assignment]
    for number in range(220):
        journal.change(reserving(f"c{number}", number)).result(5)
    assert failing.failed
    shutil.copy(journal.path, tmp_path / "alone.db")
    with sqlite3.connect(tmp_path / "alone.db") as alone:
        (count,) = alone.execute("SELECT count(*) FROM attachment").fetchone()
    alone.close()
    assert count >= 199


def test_a_file_that_can_grow_no_more_is_the_disks_fault(journal: Journal) -> None:
    def fill(ledger: Ledger) -> None:
        (pages,) = ledger.connection.execute("PRAGMA page_count").fetchone()
        ledger.connection.execute(f"PRAGMA max_page_count = {pages}").close()

    journal.ask(fill).result(5)
    with pytest.raises(Unwritable, match="full"):
        journal.change(_write_much).result(5)
    assert names(journal) == []


def _write_much(ledger: Ledger) -> None:
    for number in range(200):
        reserve(ledger, f"c{number}", number)


def test_a_journal_that_cannot_write_can_be_closed(path: str) -> None:
    journal = Journal(path)
    with somebody_writing(journal):
        journal.log(operation("web"))
        journal.close()


# Closing.


def test_what_was_asked_before_the_end_is_done(path: str) -> None:
    journal = Journal(path)
    with busy(journal):
        answer = journal.change(reserving("web", 2))
        closing = threading.Thread(target=journal.close)
        closing.start()
    closing.join(5)
    assert answer.result(0) == 1
    with Journal(path) as again:
        assert names(again) == ["web"]


def test_a_closed_journal_takes_nothing(path: str) -> None:
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(Closed):
        journal.change(reserving("web", 2))
    with pytest.raises(Closed):
        journal.ask(Ledger.count)


# The file.


def test_a_journal_is_made_where_there_is_none_and_is_for_its_owner_alone(path: str) -> None:
    with Journal(path) as journal:
        journal.change(reserving("web", 2)).result(5)
        files = list(Path(path).parent.iterdir())
        assert {file.name for file in files} >= {"journal.db", "journal.db-wal", "journal.db.lock"}
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700


def test_an_empty_file_becomes_a_journal(path: str) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).touch()
    with Journal(path) as journal:
        assert names(journal) == []
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.parametrize("content", ["empty", "in WAL mode"])
def test_who_looks_at_an_empty_file_sees_an_empty_journal(path: str, content: str) -> None:
    """An agent that found no space, or that has just begun."""
    os.makedirs(os.path.dirname(path))
    Path(path).touch()
    if content != "empty":
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
    looked_at = read_only(path)
    assert Ledger(looked_at).places() == []
    looked_at.close()


def test_what_was_written_is_there_when_it_is_opened_again(path: str) -> None:
    for number in range(2, 7):
        with Journal(path) as journal:
            journal.change(reserving(f"c{number}", number)).result(5)
    with Journal(path) as journal:
        assert len(names(journal)) == 5


def test_the_wal_does_not_grow_without_end(journal: Journal) -> None:
    def churn(ledger: Ledger) -> None:
        ledger.forget(reserve(ledger, "web", 2), resting_since=1.0)

    sizes = []
    for _ in range(6):
        for _ in range(250):
            journal.change(churn).result(5)
        sizes.append(os.path.getsize(f"{journal.path}-wal"))
    assert sizes[-1] <= sizes[0] * 1.5


def made_by_the_first_version(path: str) -> None:
    os.makedirs(os.path.dirname(path))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        f"{schema.MIGRATIONS[0].script} PRAGMA application_id = {schema.APPLICATION_ID}; "
        "PRAGMA user_version = 1;"
        "INSERT INTO attachment VALUES (1, 'net', 'web', 'eth0', 'committed', '/run/netns/web', 4, 77, 0, '',"
        " '', '', 'hash', 'loom1', x'', x'', 'boot', 1.0, 1.0)"
    )
    connection.close()


def test_a_journal_of_an_older_version_is_brought_up_to_ours_with_all_that_is_in_it(path: str) -> None:
    made_by_the_first_version(path)
    with Journal(path) as journal:
        (found,) = journal.ask(lambda ledger: ledger.of_container("web")).result(5)
        assert (found.netns_inode, found.netns_cookie) == (77, 0)
    assert schema.require_known(sqlite3.connect(path), path) == schema.VERSION


def test_who_looks_at_a_journal_of_an_older_version_sees_it_as_ours_and_leaves_it_as_it_is(path: str) -> None:
    made_by_the_first_version(path)
    before = Path(path).read_bytes()
    connection = read_only(path)
    assert [it.netns_cookie for it in Ledger(connection).of_container("web")] == [0]
    connection.close()
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("opened", [Journal, read_only])
def test_a_journal_of_a_later_version_is_refused_and_left_as_it_is(path: str, opened: type) -> None:
    Journal(path).close()
    before = of_a_later_version(path, "UPDATE fact SET value = '99' WHERE name = 'readable_by'")
    with pytest.raises(NewerSchema, match="schema 99"):
        opened(path)
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("opened", [Journal, read_only])
def test_a_journal_of_a_later_version_that_does_not_say_who_can_read_it_is_refused(
    path: str, opened: type
) -> None:
    Journal(path).close()
    before = of_a_later_version(path, "DROP TABLE fact")
    with pytest.raises(NewerSchema, match="schema 99"):
        opened(path)
    assert Path(path).read_bytes() == before


def test_a_journal_of_a_later_version_that_says_so_can_be_worked_with(path: str) -> None:
    with Journal(path) as journal:
        journal.change(lambda ledger: ledger.reserve(attachment("web"), [])).result()
    of_a_later_version(path, "ALTER TABLE attachment ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")
    with Journal(path) as journal:
        journal.change(lambda ledger: ledger.reserve(attachment("db"), [])).result()
        names = journal.ask(lambda ledger: [it.container_id for it in ledger.attachments()]).result()
        assert names == ["web", "db"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)
        assert connection.execute("SELECT DISTINCT colour FROM attachment").fetchall() == [("red",)]


def of_a_later_version(path: str, change: str) -> bytes:
    """Makes it one; what its file has then."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{change}; PRAGMA user_version = 99;")
    return Path(path).read_bytes()


@pytest.mark.parametrize("opened", [Journal, read_only])
def test_a_database_of_somebody_else_is_refused_and_left_as_it_is(path: str, opened: type) -> None:
    os.makedirs(os.path.dirname(path))
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(Damaged, match="not a netloom journal"):
        opened(path)
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("opened", [Journal, read_only])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: str, opened: type) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(b"precious" * 1000)
    with pytest.raises(Damaged):
        opened(path)
    assert Path(path).read_bytes() == b"precious" * 1000


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable):
        Journal(str(tmp_path / "file" / "journal.db"))


# One writer, many readers.


def test_a_second_one_is_refused_and_told_who_has_it(journal: Journal) -> None:
    with pytest.raises(InUse, match=str(os.getpid())):
        Journal(journal.path)
    assert names(journal) == []


def test_a_journal_whose_holder_was_killed_can_be_taken(path: str) -> None:
    code = (
        "import sys, time; from netloom.journal import Journal; "
        "journal = Journal(sys.argv[1]); print('taken', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"taken\n"
    with pytest.raises(InUse, match=str(holder.pid)):
        Journal(path)
    holder.send_signal(signal.SIGKILL)
    holder.wait(5)
    Journal(path).close()


def test_one_that_only_reads_sees_each_commit_and_can_change_nothing(journal: Journal) -> None:
    connection = read_only(journal.path)
    reader = Ledger(connection)
    journal.change(reserving("web", 2)).result(5)
    assert len(reader.places()) == 1
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reserve(reader, "db", 3)
    connection.execute("BEGIN")
    assert len(reader.places()) == 1
    journal.change(reserving("db", 3)).result(5)
    assert len(reader.places()) == 1
    connection.execute("COMMIT")
    assert len(reader.places()) == 2
    connection.close()


def test_where_no_journal_is_there_is_nothing_to_read(path: str) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        read_only(path)
    assert not os.path.exists(path)


def test_what_is_tried_in_a_copy_stays_there(journal: Journal) -> None:
    journal.change(reserving("web", 2)).result(5)
    connection = read_only(journal.path)
    copy = in_memory(connection)
    connection.close()
    assert reserve(copy, "db", 3) == 2
    assert [it.key.container_id for it in copy.places()] == ["web", "db"]
    copy.connection.close()
    assert names(journal) == ["web"]


def test_operations_that_wait_for_the_disk_are_known_and_those_that_were_too_many_are_counted(
    journal: Journal,
) -> None:
    logged = [replace(operation("web"), started=float(number)) for number in range(1500)]
    with somebody_writing(journal):
        for it in logged:
            journal.log(it)
        with pytest.raises(Unwritable):
            journal.flush().result(5)
        assert [it.started for it in journal.unwritten()] == [it.started for it in logged[500:]]
    journal.flush().result(5)
    assert journal.unwritten() == []
    assert journal.ask(search.gaps).result(5) == [search.Gap(500, 0.0, 499.0)]
    assert len(journal.ask(lambda ledger: ledger.operations(2000)).result(5)) == 1000


def test_damage_is_remembered_until_every_page_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(str(path)) as journal:
        journal.change(lambda ledger: ledger.set_fact("a", "1")).result(10)
        journal.prove()
        assert journal.damage == ""
        log = tmp_path / "journal.db-wal"
        whole = log.read_bytes(), path.read_bytes()
        for it in (log, path):
            with open(it, "r+b") as file:
                file.write(b"\xa5" * it.stat().st_size)
        journal.prove()
        assert journal.damage
        with suppress(JournalError):  # what it has in memory may let it write
            journal.change(lambda ledger: ledger.set_fact("a", "2")).result(10)
        assert journal.damage
        for it, content in zip((log, path), whole, strict=True):
            with open(it, "r+b") as file:
                file.write(content)
        journal.prove()
        assert journal.damage == ""
