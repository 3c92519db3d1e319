"""Reads the journal for commands, with or without a running agent."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Annotated

from msgspec import Meta, Struct

from ...api.client import AgentError
from ...api.findings import Finding
from ...api.paths import Place, default_state_dir, journal_of
from ...journal import (
    Damaged,
    InUse,
    JournalError,
    Ledger,
    NewerSchema,
    NotMigrated,
    Unwritable,
    in_memory,
    read_only,
)
from ...journal.errors import LockNotAFile, MissingJournal, NotAFile, Unreadable
from ...journal.file import explained as told
from ..advice import as_root
from ..errors import OperationFailed

_ADVICE = "look at the file that the message names, and follow the message"
_FORGOTTEN = "running containers keep their networks until their runtime deletes them"
_MISSING = "give the --state-dir that the agent was started with; `netloom up` makes this machine a node"
_DAMAGED = (
    "restore a copy: `netloom down`, `netloom journal restore FILE`, `netloom up`; without a copy, move the "
    f"file away instead, and `netloom up` starts with an empty journal: {_FORGOTTEN}"
)

_NOT_A_FILE = (
    "move away what is at that path, and put the journal back if you have it; without it, `netloom up` "
    "starts with an empty journal: "
    f"{_FORGOTTEN}"
)

_NOT_A_LOCK = (
    "move it away, and try again: netloom creates a new lock, and the journal stays as it is; if an agent "
    "runs, stop it first (`netloom down`)"
)

_CODES: tuple[tuple[type[JournalError], str], ...] = (
    (Damaged, "journal-damaged"),
    (NewerSchema, "journal-newer"),
    (NotMigrated, "journal-not-migrated"),
    (InUse, "journal-in-use"),
    (Unreadable, "journal-unreadable"),
    (Unwritable, "journal-unwritable"),
)


def journal_path(state_dir: str) -> str:
    return journal_of(state_dir)


class Counts(Struct, frozen=True):
    """Rows of a journal."""

    attachments: Annotated[int, Meta(description="attachments, finished or not")]
    addresses: Annotated[int, Meta(description="addresses that are held or resting")]
    operations: Annotated[int, Meta(description="operations and events")]

    def sentence(self) -> str:
        return ", ".join(
            (
                f"{self.attachments} attachment{'' if self.attachments == 1 else 's'}",
                f"{self.addresses} address{'' if self.addresses == 1 else 'es'}",
                f"{self.operations} operation{'' if self.operations == 1 else 's'}",
            )
        )


def counts_of(connection: sqlite3.Connection) -> Counts:
    counted = (
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("attachment", "address", "operation")
    )
    return Counts(*counted)


@contextmanager
def explained() -> Iterator[None]:
    """Turns errors of the journal into errors of the command."""
    try:
        yield
    except JournalError as error:
        raise OperationFailed(str(error), advice_on(error), code=code_of(error)) from None


def advice_on(error: JournalError) -> str:
    if isinstance(error, MissingJournal):
        return _MISSING
    if isinstance(error, LockNotAFile):
        return _NOT_A_LOCK
    if isinstance(error, NotAFile):
        return _NOT_A_FILE
    if isinstance(error, Unreadable) and os.geteuid() != 0:
        return as_root()
    return _DAMAGED if isinstance(error, Damaged) else _ADVICE


def code_of(error: JournalError) -> str:
    return next((code for kind, code in _CODES if isinstance(error, kind)), "journal-unreadable")


@contextmanager
def reading(place: Place) -> Iterator[None]:
    """Like `explained`, also for errors of SQLite: a damaged page is found only when it is read."""
    with explained():
        try:
            yield
        except sqlite3.DatabaseError as cause:
            raise told(journal_path(place.state_dir), cause, reading=True) from None


@contextmanager
def ledger(place: Place) -> Iterator[Ledger | None]:
    """The journal as it is now, for reading; None if there is none yet."""
    if not _is_there(place):
        yield None
        return
    with reading(place), closing(read_only(journal_path(place.state_dir))) as connection:
        connection.execute("BEGIN")
        yield Ledger(connection)


def networks_attached_of(place: Place) -> Counter[str]:
    """How many attachments each network has; none if the journal cannot be read, which others report."""
    from ...journal.search import networks_attached

    try:
        with ledger(place) as journal:
            return networks_attached(journal) if journal else Counter()
    except OperationFailed:
        return Counter()


def copy_of_journal(place: Place) -> Ledger | None:
    """A copy in memory that can be changed freely; None if there is no journal yet."""
    if not _is_there(place):
        return None
    with reading(place), closing(read_only(journal_path(place.state_dir))) as connection:
        return in_memory(connection)


def _is_there(place: Place) -> bool:
    path = journal_path(place.state_dir)
    try:
        os.stat(path)
    except PermissionError:
        raise OperationFailed(
            f"cannot read {path}: {os.strerror(errno.EACCES)}", as_root(), code="journal-unreadable"
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            return True  # a broken link: opening it reports the error
        _require_that_none_was(path, place.socket)
        return False
    except OSError:
        return True  # opening it reports the error
    return True


def has_links() -> bool:
    """Whether the kernel has a container's link, so that something is attached."""
    from ...kernel import KernelError, Namespace
    from ...kernel.objects.link import link_names
    from ...networks.names import host_link_of

    try:
        with Namespace.own() as host:
            return any(host_link_of(it.name) == it.name for it in link_names(host).values())
    except KernelError:
        return False


def findings_of_own_table() -> list[Finding]:
    """Findings about this host's nft table; none if it cannot be read, for example without root."""
    from ...kernel import KernelError, Namespace
    from ..inspect.attachment_state import findings_of_table

    try:
        with Namespace.own() as host:
            return findings_of_table(host)
    except KernelError:
        return []


def _require_that_none_was(path: str, socket: str) -> None:
    """Raises if there was a journal: only a machine that never had one may be reported as empty."""
    state_dir = os.path.dirname(path)
    # If the journal was removed, its lock remains; if both were, the links remain.
    if os.path.exists(f"{path}.lock") or has_links():
        from ...journal import lost
        from ..control.process import require_same_state, running, user

        place = Place(state_dir, socket)
        process = user(place)
        with suppress(AgentError):
            agent = None if process else running(place)
            if agent is not None:
                require_same_state(place, agent.info)
        under = f" while the agent (process {process}) runs" if process else ""
        raise OperationFailed(
            f"the journal {path} is missing{under}: attachments are unknown",
            # A running agent repairs the table at once.
            lost.advice(path, runs=bool(process), is_guarded=bool(process) or not findings_of_own_table()),
            code="journal-gone",
        )
    if state_dir != default_state_dir() and not os.path.isdir(state_dir):
        raise OperationFailed(
            f"there is no directory {state_dir}, so there is no journal",
            "give the --state-dir that the agent was started with",
            code="journal-unreadable",
        )
