"""A journal that was lost: which copies of it there are, and what to do. The agent and all commands ask here.

Copies are those that netloom itself has kept beside the journal: of one that was removed under its agent
(`journal.db.rescued-1`), and of one whose schema was about to change (`journal.db.backup-4`). A journal that
another was put in place of (`journal.db.replaced-1`) was replaced on purpose. It is named only if it knows
links that the journal does not. Which of them is the newest is decided by what they know, and not by the time
of a file, which a copy of it does not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from typing import NamedTuple

from .backup import kept, replaced
from .errors import JournalError
from .file import as_it_is
from .ledger import Ledger
from .moved_file import is_rescued, rescued
from .records import seconds

_FORGOTTEN = "containers that run keep their networks, which go when their runtime deletes them"
_UNGUARDED = "it does not know the containers that run, and their networks may stay incomplete"


class JournalCopy(NamedTuple):
    """`latest` is the last moment that it knows of, in seconds since 1970."""

    path: str
    latest: float


def copies(path: str) -> list[JournalCopy]:
    """Those of the journal at `path` that can be read, the newest last."""
    return _readable([*kept(path), *rescued(path)])


def newest(path: str) -> str:
    """The newest copy; empty if there are no copies."""
    found = copies(path)
    return found[-1].path if found else ""


def newest_with(path: str, links: Collection[str]) -> tuple[str, int] | None:
    """The newest copy that knows some of these links, and how many of them; None if none does."""
    for it in reversed(_readable([*kept(path), *rescued(path), *replaced(path)])):
        count = _known_in(it.path, links)
        if count:
            return it.path, count
    return None


def latest_of(connection: sqlite3.Connection) -> float:
    """When what it knows of last has happened; 0 if it knows of nothing."""
    query = "SELECT max(coalesce((SELECT max(started) FROM operation), 0), "
    query += "coalesce((SELECT max(created_at) FROM attachment), 0))"
    return seconds(connection.execute(query).fetchone()[0])


def advice(path: str, source: str = "", *, runs: bool, is_guarded: bool = True) -> str:
    """What to do about a journal that is not in its place. `source` is what all of it can be had from.

    `runs`: an agent has it open, and has to end first. Without `is_guarded`, the nft table is not whole.
    """
    down = "`netloom down`, " if runs else ""
    known = source or newest(path)
    if not known:
        return (
            f"put it back (the same file), or a copy of yours: {down}`netloom journal restore FILE`, "
            f"`netloom up`; without one, {down}`netloom up` begins with an empty journal: "
            f"{_FORGOTTEN if is_guarded else _UNGUARDED}"
        )
    restore = f"{down}`netloom journal restore {known}`, `netloom up`"
    if known == source and not is_rescued(known, path):
        return f"it is {known} now: put it back (the same file, not a copy of it), or {restore}"
    return f"{known} is {'a copy of it' if known == source else 'the newest copy'}: {restore}"


def advice_on_damage(path: str, *, runs: bool) -> str:
    """What to do about a journal that is in its place, and whose pages are damaged."""
    down = "`netloom down`, " if runs else ""
    known = newest(path)
    if known:
        return f"{known} is the newest copy: {down}`netloom journal restore {known}`, `netloom up`"
    return (
        f"put a copy of yours back: {down}`netloom journal restore FILE`, `netloom up`; without one, {down}"
        f"move {path} away, and `netloom up` begins with an empty journal: {_FORGOTTEN}"
    )


def _readable(files: Iterable[str]) -> list[JournalCopy]:
    found = [JournalCopy(it, latest) for it in files if (latest := _latest_in(it)) is not None]
    return sorted(found, key=lambda it: it.latest)


def _latest_in(file: str) -> float | None:
    try:
        connection, schema = as_it_is(file, is_copy=True)
        with closing(connection):
            return latest_of(connection) if schema else None
    except (JournalError, sqlite3.DatabaseError, OSError):
        return None


def _known_in(file: str, links: Collection[str]) -> int:
    try:
        connection, _ = as_it_is(file, is_copy=True)
        with closing(connection):
            return sum(map(Ledger(connection).has_link, links))
    except (JournalError, sqlite3.DatabaseError, OSError):
        return 0
