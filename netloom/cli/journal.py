"""The journal, for commands that look at it: beside an agent, or without one."""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ..journal import (
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
from ..journal.file import explained as told
from .failure import CommandFailed
from .place import default_state_dir

_ADVICE = "look at the file that the message names, and do as it says"
_FORGOTTEN = "containers that run keep their networks, and have to be deleted by hand"
# Of one that was taken from under an agent, and of one that is gone while none runs.
TAKEN = (
    "put it back (the same file), or begin with an empty one: `netloom down`, then `netloom up`; "
    f"{_FORGOTTEN}"
)
_GONE = f"put it back if you have it; else `netloom up` begins with an empty one: {_FORGOTTEN}"
_DAMAGED = f"move it away, and `netloom up` begins with an empty one: {_FORGOTTEN}"

_CODES: tuple[tuple[type[JournalError], str], ...] = (
    (Damaged, "journal-damaged"),
    (NewerSchema, "journal-newer"),
    (NotMigrated, "journal-not-migrated"),
    (InUse, "journal-in-use"),
    (Unwritable, "journal-unwritable"),
)


def journal_path(state_dir: str) -> str:
    return os.path.join(state_dir, "journal.db")


@contextmanager
def explained() -> Iterator[None]:
    """Errors of the journal as errors of the command."""
    try:
        yield
    except JournalError as error:
        raise CommandFailed(str(error), advice_on(error), code=code_of(error)) from None


def advice_on(error: JournalError) -> str:
    return _DAMAGED if isinstance(error, Damaged) else _ADVICE


def code_of(error: JournalError) -> str:
    return next((code for kind, code in _CODES if isinstance(error, kind)), "journal-unreadable")


@contextmanager
def ledger(args: argparse.Namespace) -> Iterator[Ledger | None]:
    """The journal as it is at this moment, to be read; None if there is none yet."""
    path = journal_path(args.state_dir)
    if not _is_there(path):
        yield None
        return
    with explained(), closing(read_only(path)) as connection:
        try:
            connection.execute("BEGIN")
            yield Ledger(connection)
        except sqlite3.DatabaseError as cause:  # a page of it that is only read now
            raise told(path, cause) from None


def copy_of_journal(args: argparse.Namespace) -> Ledger | None:
    """A copy in which everything can be tried; None if there is no journal yet."""
    path = journal_path(args.state_dir)
    if not _is_there(path):
        return None
    with explained(), closing(read_only(path)) as connection:
        try:
            return in_memory(connection)
        except sqlite3.DatabaseError as cause:
            raise told(path, cause) from None


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except PermissionError:
        raise CommandFailed(
            f"{path} is not yours to read", "run it as root", code="journal-unreadable"
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        _require_that_none_was(path)
        return False
    return True


def _require_that_none_was(path: str) -> None:
    """That nothing is written down may be said of a machine that never had a journal, and of no other."""
    state_dir = os.path.dirname(path)
    if os.path.exists(f"{path}.lock"):  # which stays as long as the journal does
        from .agent_process import Place, holder

        process = holder(Place(state_dir, ""))
        under = f", under the agent that runs (process {process})" if process else ""
        raise CommandFailed(
            f"the journal {path} is gone{under}: what is attached is unknown",
            TAKEN if process else _GONE,
            code="journal-gone",
        )
    if state_dir != default_state_dir() and not os.path.isdir(state_dir):
        raise CommandFailed(
            f"there is no directory {state_dir}, and so no journal",
            "give the --state-dir that the agent was started with",
            code="journal-unreadable",
        )
