"""The journal, for commands that look at it: beside an agent, or without one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ..journal import JournalError, Ledger, in_memory, read_only
from .failure import CommandFailed

_ADVICE = "look at the file that the message names, and do as it says"


def journal_path(state_dir: str) -> str:
    return os.path.join(state_dir, "journal.db")


@contextmanager
def explained() -> Iterator[None]:
    """Errors of the journal as errors of the command."""
    try:
        yield
    except JournalError as error:
        raise CommandFailed(str(error), _ADVICE) from None


@contextmanager
def ledger(args: argparse.Namespace) -> Iterator[Ledger | None]:
    """The journal as it is at this moment, to be read; None if there is none yet."""
    path = journal_path(args.state_dir)
    if not _is_there(path):
        yield None
        return
    with explained(), closing(read_only(path)) as connection:
        connection.execute("BEGIN")
        yield Ledger(connection)


def copy_of_journal(args: argparse.Namespace) -> Ledger | None:
    """A copy in which everything can be tried; None if there is no journal yet."""
    path = journal_path(args.state_dir)
    if not _is_there(path):
        return None
    with explained(), closing(read_only(path)) as connection:
        return in_memory(connection)


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except PermissionError:
        raise CommandFailed(f"{path} is not yours to read", "run it as root") from None
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
