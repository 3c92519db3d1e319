"""A journal in place of another: in one step, while nobody else can have it. The one before it is kept.

A log without its file is the danger. SQLite takes whatever log lies beside a file for that file's own, and
mixes the pages of both. So the old log goes first: into its own file, or aside with it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TypeAlias

from ...failpoints import reach
from ...journal import JournalError
from ...journal.astray import remove_empty_log
from ...journal.backup import copy, replaced_as
from ...journal.causes import reason
from ...journal.file import as_it_is
from ...journal.lock import locked
from ..agent_process import Place, user
from ..failure import CommandFailed
from ..journal import explained
from ..place import default_socket
from .backup import unwritable

# Raises unless a journal that can be read may be replaced.
Require: TypeAlias = Callable[[sqlite3.Connection], None]

_LOGS = ("-wal", "-shm")


def put(journal: sqlite3.Connection, path: str, require: Require, *, over_damage: bool) -> str | None:
    """Where the one before it is. One that nobody can read is replaced `over_damage` only."""
    require_no_agent(path)
    lock = _locked(path)
    try:
        if not os.path.lexists(path):
            return _put_alone(journal, path)
        if _is_readable(path, require, over_damage=over_damage):
            aside = _put_over(journal, path)
        else:
            aside = _put_over_damage(journal, path)
        reach("restore.done")
        return aside
    except (OSError, sqlite3.DatabaseError) as cause:
        raise unwritable(path, cause) from None
    finally:
        os.close(lock)


def require_no_agent(path: str) -> None:
    """Before a copy is read that may be the agent's own file, moved away under it, which it still writes."""
    if user(Place(os.path.dirname(path), default_socket())) is not None:
        raise _in_use(path)


def _locked(path: str) -> int:
    try:
        with explained():
            return locked(path)
    except CommandFailed as error:
        if error.code == "journal-in-use":
            raise _in_use(path) from None
        raise


def _in_use(path: str) -> CommandFailed:
    return CommandFailed(
        f"an agent runs, and has {path}; nothing was changed",
        "stop it with `netloom down`, try again, and start it with `netloom up`",
        code="journal-in-use",
    )


def _is_readable(path: str, require: Require, *, over_damage: bool) -> bool:
    try:
        connection, _ = as_it_is(path, is_copy=True)  # nobody else can have it now
        with closing(connection):
            require(connection)
    except (JournalError, sqlite3.DatabaseError) as cause:
        if over_damage:
            return False
        raise CommandFailed(
            f"{path} cannot be read: {reason(cause)}; nothing was changed",
            "look at it with `netloom journal verify`, or put it aside with --force",
            code="journal-damaged",
        ) from None
    return True


def _put_over(journal: sqlite3.Connection, path: str) -> str:
    aside = _free(path)
    connection, _ = as_it_is(path)
    with closing(connection):
        copy(connection, aside)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    reach("restore.aside")
    copy(journal, path)
    return aside


def _put_over_damage(journal: sqlite3.Connection, path: str) -> str:
    """What SQLite cannot copy is kept as it is, with its log: at every moment, one name has both."""
    aside = _free(path)
    os.link(path, aside, follow_symlinks=False)
    try:
        _move_logs(path, aside)
        reach("restore.aside")
        copy(journal, path)
    except BaseException:
        _move_logs(aside, path)
        with suppress(OSError):
            os.unlink(aside)
        raise
    return aside


def _put_alone(journal: sqlite3.Connection, path: str) -> str | None:
    """The log of one that is gone may still be there. In an empty one, there is nothing to keep."""
    remove_empty_log(path)
    aside = _free(path)
    is_kept = _move_logs(path, aside)
    copy(journal, path)
    return f"{aside}-wal" if is_kept else None


def _move_logs(path: str, to: str) -> bool:
    is_moved = False
    for ending in _LOGS:
        with suppress(FileNotFoundError):
            os.rename(path + ending, to + ending)
            is_moved |= ending == "-wal"
    return is_moved


def _free(path: str) -> str:
    number = 1
    while any(os.path.lexists(f"{replaced_as(path, number)}{ending}") for ending in ("", *_LOGS)):
        number += 1
    return replaced_as(path, number)
