"""The one thread that writes the journal.

A disk takes a quarter of a millisecond to make a transaction durable, whether it holds one change or fifty.
So changes wait in one queue. The thread takes all that wait, gives each a savepoint, and commits them
together. The caller gets the answer only after the commit.

A `change` that was answered survives a loss of power: WAL with `synchronous=FULL`. A `note` that was answered
survives only the end of the process. That is enough to mark what is about to be done to the kernel, whose
state is lost with the power as well. A note becomes durable with the next change, or with the log, within a
second.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeVar

from ..failpoints import failpoint
from ..waiting import until_done
from . import file, search
from .errors import Closed, Damaged, JournalError, NotCheckpointed, name_of
from .file import as_it_is, explained, opened, read_only, was_not_kept
from .ledger import Ledger
from .lock import locked
from .moved_file import MovedFile
from .records import Operation
from .rollback import roll_back
from .verification import require_whole

T = TypeVar("T")
Change = Callable[[Ledger], T]

# The thread writes the log of operations when it was idle for this long, when so many operations wait, or
# when the first of them has waited this long.
_LOG_PATIENCE = 0.2
_LOG_TOGETHER = 64
_LOG_LATEST = 1.0
# At most so many operations wait for a failing disk; beyond that, the oldest are dropped.
_WAITING = 1000
# After so many commits, the thread makes a checkpoint of the WAL when it is idle; after so many, at once.
# SQLite would make one as well, but would not report a failure.
_CHECKPOINT_AFTER, _CHECKPOINT_LATEST = 200, 2000


class Answer(Future[T]):
    """The answer to a change or a query: `await` it, or call its `result`."""

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        await until_done(self)
        return self.result(0)


class _Job:
    __slots__ = ("answer", "change", "durable", "error", "flushes", "value", "writes")

    def __init__(
        self, change: Change[Any], *, writes: bool = False, durable: bool = False, flushes: bool = False
    ) -> None:
        self.change = change
        self.writes = writes
        self.flushes = flushes
        self.durable = durable
        self.answer: Answer[Any] = Answer()
        self.value: Any = None
        self.error: BaseException | None = None


class _Reader:
    """A connection for queries beside the writer's. It stays open: SQLite would keep the descriptor of a
    closed one while other connections are open.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Opens the file at once, not at the first query: later, another file may be at the path."""
        self._connection = read_only(self._path)

    def ask(self, question: Change[T]) -> T:
        with self._lock:
            assert self._connection is not None
            try:
                return question(Ledger(self._connection))
            except sqlite3.DatabaseError as cause:
                raise explained(self._path, cause) from None

    def close(self) -> None:
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.close()


class Journal:
    def __init__(self, path: str, *, lent_with: int = 0) -> None:
        """Takes the journal; no other process can, until this one closes it or ends.

        `lent_with` is the schema that the journal had when it was handed to a successor that failed: see
        `rollback`.
        """
        self.path = path
        # None in the queue only wakes the thread.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._operations: list[Operation] = []
        # How many operations were dropped since the last successful write, and between which times.
        self._dropped: tuple[int, float, float] | None = None
        self._logged = 0.0
        self._lock = threading.Lock()
        self._closing = False
        self._commits = 0
        self._waits_for_disk = True
        # Whether the last write to the disk failed.
        self._is_doubtful = False
        self._lookup, self._survey = _Reader(path), _Reader(path)
        self._saving: Answer[None] | None = None
        # Why the last write failed, or empty; and when a write last succeeded.
        self.trouble = ""
        self.written = 0.0
        # What was damaged in the file when damage was last found; empty if every page was whole since.
        self.damage = ""
        # When `prove` last read the whole file, and how long that took.
        self.proved, self.proving_took = 0.0, 0.0
        # Called on the journal's thread after each transaction: how long it took, and whether it waited for
        # the disk.
        self.timed: Callable[[float, bool], None] | None = None
        self._lock_fd = locked(path)
        try:
            if lent_with:
                roll_back(path, lent_with)
            self._connection = opened(path)
            (self.schema,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._moved_file = MovedFile(path, os.stat(path))
            self._lookup.open()
            self._survey.open()
            self._thread = threading.Thread(target=self._run, name="netloom-journal", daemon=True)
            self._thread.start()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def change(self, change: Change[T]) -> Answer[T]:
        """Runs the function in a transaction; the answer comes when that is durable.

        An exception of the function is the answer, and nothing is changed. `Unwritable`: the disk failed.
        """
        return self._asked(_Job(change, writes=True, durable=True))

    def note(self, change: Change[T]) -> Answer[T]:
        """Like `change`, but answered once written: no later change is durable before this one.

        Use it for data that matters only as long as the kernel's state, which is lost with the power as well.
        """
        return self._asked(_Job(change, writes=True))

    def ask(self, question: Change[T]) -> Answer[T]:
        """Runs a query, which needs no commit. It sees every change that was answered before."""
        return self._asked(_Job(question))

    def look(self, question: Change[T]) -> T:
        """Answers a query at once on the calling thread, so that no other thread has to be woken.

        Use it for queries about few rows, whose pages are in memory. Only one thread may call this.
        """
        return self._read(self._lookup, question)

    def survey(self, question: Change[T]) -> T:
        """Answers a query about many rows on the calling thread, so that the writer does not wait for it."""
        return self._read(self._survey, question)

    def prove(self) -> None:
        """Reads every page of the file on the calling thread. Only this clears `damage`.

        It uses a connection of its own: open connections have pages in memory, and their writes may make a
        damaged file look whole to a query about few rows.
        """
        if not self.is_in_place():
            return
        began = time.monotonic()
        try:
            connection, _ = as_it_is(self.path)
            with closing(connection):
                require_whole(connection, self.path)
            self.damage = ""
        except sqlite3.DatabaseError as cause:
            self._told(cause)
        except Damaged as error:
            self.damage = str(error)
        except (JournalError, OSError):  # a failed read does not mean that its pages are damaged
            return
        self.proved = time.monotonic()
        self.proving_took = self.proved - began

    def is_in_place(self) -> bool:
        """Says whether the open file is the one at the journal's path."""
        return self._moved_file.is_in_place()

    def where(self) -> str:
        """For a file that was moved: returns the file or the copy with the whole content, or empty."""
        return self._moved_file.where()

    def save(self) -> None:
        """For a file that was moved: writes the WAL into the file, in the background.

        Call it repeatedly: later changes are written to the WAL as well.
        """
        if self._saving is None or self._saving.done():
            self._saving = self._asked(_Job(lambda ledger: self._moved_file.save(ledger.connection)))

    def log(self, operation: Operation) -> None:
        """Logs an operation. It is written with the next change, or soon without one; the caller does not
        wait.
        """
        with self._lock:
            self._operations.append(operation)
            if len(self._operations) == 1:
                self._logged = time.monotonic()
                self._jobs.put(None)

    def unwritten(self) -> list[Operation]:
        """Returns the logged operations that are not yet in the file, the oldest first."""
        with self._lock:
            return list(self._operations)

    def flush(self) -> Answer[None]:
        """Answers when every logged operation is on disk, for a reader of the file.

        `Unwritable` if the disk fails. Writes nothing if nothing waits.
        """
        return self._asked(_Job(lambda _: None, flushes=True))

    def close(self) -> None:
        """Finishes the queued requests, then closes the file."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._jobs.put(None)
        self._thread.join()
        self._lookup.close()
        self._survey.close()
        has_moved = not self.is_in_place()
        if has_moved:
            self._moved_file.save(self._connection, is_last=True)
        with suppress(sqlite3.Error):
            self._connection.close()
        if has_moved:
            self._moved_file.tidy()
        os.close(self._lock_fd)

    def _read(self, reader: _Reader, question: Change[T]) -> T:
        try:
            return reader.ask(question)
        except Damaged as error:
            self.damage = str(error)
            raise

    def _asked(self, job: _Job) -> Answer[Any]:
        with self._lock:
            if self._closing:
                raise Closed("the journal is closed")
            self._jobs.put(job)
        return job.answer

    # The journal's thread.

    def _run(self) -> None:
        while (jobs := self._next()) is not None:
            operations = self._ripe(idle=not jobs or any(job.flushes for job in jobs))
            # A failure to write operations is reported to the caller of `flush`.
            changes = [job for job in jobs if job.writes or (job.flushes and operations)]
            if changes or operations:
                self._commit(changes, operations)
            for job in jobs:
                if not job.writes:
                    self._answer(job)
            for job in jobs:
                _notify(job)
            if self._commits >= (_CHECKPOINT_AFTER if self._jobs.empty() else _CHECKPOINT_LATEST):
                self._checkpoint()

    def _ripe(self, *, idle: bool) -> list[Operation]:
        """Says whether to write the logged operations: when idle, when many wait, or when one has waited
        long.
        """
        with self._lock:
            is_young = time.monotonic() - self._logged < _LOG_LATEST
            if not idle and is_young and len(self._operations) < _LOG_TOGETHER:
                return []
            operations, self._operations = self._operations, []
            return operations

    def _require_no_doubt(self) -> None:
        """Makes a checkpoint after a failed write: the kernel reports a failure to store only once.

        The lost writes may include notes. So a WAL that failed is not appended to: all of it is written into
        the file.
        """
        if self._is_doubtful:
            busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise NotCheckpointed("another process is reading it, so the WAL cannot be checkpointed")
            self._is_doubtful = False

    def _wait_for_disk(self, wait: bool) -> None:
        if wait != self._waits_for_disk:
            self._connection.execute(f"PRAGMA synchronous = {file.DURABLE if wait else 'NORMAL'}")
            self._waits_for_disk = wait

    def _checkpoint(self, how: str = "PASSIVE") -> None:
        try:
            self._connection.execute(f"PRAGMA wal_checkpoint({how})")
        except sqlite3.DatabaseError as cause:
            self._is_doubtful |= was_not_kept(cause)
        self._commits = 0

    def _next(self) -> list[_Job] | None:
        """Returns all that waits; empty if only operations are to be logged; None at the end."""
        while True:
            waiting: list[_Job | None] = []
            try:
                waiting = [self._jobs.get(timeout=self._patience())]
                while True:
                    waiting.append(self._jobs.get_nowait())
            except Empty:
                pass
            jobs = [job for job in waiting if job is not None]
            if jobs:
                return jobs
            if self._closing:
                return [] if self._operations else None
            if not waiting:
                return []

    def _patience(self) -> float | None:
        """Returns how long to wait for the next request."""
        if self._closing:
            return 0
        return _LOG_PATIENCE if self._operations else None

    def _answer(self, job: _Job) -> None:
        try:
            job.value = job.change(Ledger(self._connection))
        except BaseException as error:
            job.error = self._told(error)

    def _commit(self, jobs: list[_Job], operations: list[Operation]) -> None:
        began = time.perf_counter()
        cause = self._try(jobs, operations)
        ended = time.perf_counter()
        if self.timed is not None:
            self.timed(ended - began, self._waits_for_disk)
        if cause is None:
            self._dropped = None
            self._commits += 1
            self.trouble = ""
            self.written = time.monotonic()
            return
        error = self._told(cause)
        for job in jobs:
            job.error = job.error or error
        if error is cause or isinstance(cause, sqlite3.IntegrityError):
            return  # a fault of the values, not of the disk: they are not written a second time
        self.trouble = str(error)
        if was_not_kept(cause):
            self._is_doubtful = True
            self._overwrite()
        if name_of(cause) == "SQLITE_FULL":
            # The WAL itself may fill the disk: a checkpoint makes space for the next change.
            self._checkpoint("TRUNCATE")
        with self._lock:  # the log of operations may be written later, but must not grow for ever
            if not self._closing:
                waiting = [*operations, *self._operations]
                self._operations = waiting[-_WAITING:]
                self._drop(waiting[:-_WAITING])

    def _drop(self, operations: list[Operation]) -> None:
        """Drops operations. The gap is recorded as soon as the disk accepts a write."""
        if operations:
            count, began, _ = self._dropped or (0, operations[0].started, 0.0)
            self._dropped = (count + len(operations), began, operations[-1].started)

    def _try(self, jobs: list[_Job], operations: list[Operation]) -> Exception | None:
        """Commits all jobs, or none; a job that fails affects only itself."""
        connection = self._connection
        try:
            self._require_no_doubt()
            self._wait_for_disk(bool(operations) or any(job.durable for job in jobs))
            connection.execute("BEGIN IMMEDIATE")
            failpoint("journal.begun")
            if len(jobs) == 1 and not operations:
                jobs[0].value = jobs[0].change(Ledger(connection))  # a single job needs no savepoint
            else:
                for job in jobs:
                    self._write(job)
            if operations:
                Ledger(connection).record(operations)
            if self._dropped is not None:
                search.note_gap(Ledger(connection), *self._dropped)
            failpoint("journal.written")
            connection.execute("COMMIT")
            failpoint("journal.committed")
        except Exception as cause:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            return cause
        return None

    def _overwrite(self) -> None:
        """Overwrites what the disk did not store: it is in the WAL behind its end, where no restart may find
        it.
        """
        with suppress(sqlite3.Error):
            self._wait_for_disk(False)
            self._connection.execute("BEGIN IMMEDIATE")
            Ledger(self._connection).set_fact("failed", f"{time.time()}")
            self._connection.execute("COMMIT")

    def _told(self, error: BaseException) -> BaseException:
        told = explained(self.path, error) if isinstance(error, sqlite3.DatabaseError) else error
        if isinstance(told, Damaged):
            self.damage = str(told)
        return told

    def _write(self, job: _Job) -> None:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            job.value = job.change(Ledger(connection))
        except BaseException as error:
            if not connection.in_transaction or name_of(error) == "SQLITE_FULL":
                raise  # a disk error: SQLite has rolled back the whole transaction, or may have
            connection.execute("ROLLBACK TO job")
            job.error = self._told(error)
        connection.execute("RELEASE job")


def _notify(job: _Job) -> None:
    if job.error is not None:
        job.answer.set_exception(job.error)
    else:
        job.answer.set_result(job.value)
