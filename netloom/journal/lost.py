"""A lost journal: which copies of it exist, and what to do. The agent and all commands use this module.

netloom keeps copies beside the journal: of a journal that was deleted while its agent ran
(`journal.db.rescued-1`), and of one whose schema was about to change (`journal.db.backup-4`). A journal that
was replaced by another (`journal.db.replaced-1`) was replaced on purpose, so it is offered only if it knows
links that the journal does not. The newest copy is the one with the newest content. File times do not decide,
since copying a file changes them.
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

_FORGOTTEN = "running containers keep their networks until their runtime deletes them"
_UNGUARDED = "it does not know the running containers, and their networks may stay incomplete"


class JournalCopy(NamedTuple):
    """A copy of the journal. `latest` is the time of its last entry, in seconds since 1970."""

    path: str
    latest: float


def copies(path: str) -> list[JournalCopy]:
    """Returns the readable copies of the journal at `path`, the newest last."""
    return _readable([*kept(path), *rescued(path)])


def newest(path: str) -> str:
    """Returns the newest copy; empty if there are no copies."""
    found = copies(path)
    return found[-1].path if found else ""


def newest_with(path: str, links: Collection[str]) -> tuple[str, int] | None:
    """Returns the newest copy that knows some of these links, with their number; None without one."""
    for it in reversed(_readable([*kept(path), *rescued(path), *replaced(path)])):
        count = _known_in(it.path, links)
        if count:
            return it.path, count
    return None


def latest_of(connection: sqlite3.Connection) -> float:
    """Returns the time of the last entry; 0 if there are no entries."""
    query = "SELECT max(coalesce((SELECT max(started) FROM operation), 0), "
    query += "coalesce((SELECT max(created_at) FROM attachment), 0))"
    return seconds(connection.execute(query).fetchone()[0])


def advice(path: str, source: str = "", *, runs: bool, is_guarded: bool = True) -> str:
    """Says what to do about a journal that is not at its path. `source` is a file with all of its content.

    `runs`: an agent has the file open and must be stopped first. Without `is_guarded`, the nft table is
    incomplete.
    """
    down = "`netloom down`, " if runs else ""
    known = source or newest(path)
    if not known:
        return (
            f"put it back (the same file), or restore a copy of your own: {down}"
            f"`netloom journal restore FILE`, `netloom up`; without a copy, {down}"
            "`netloom up` begins with an empty journal: "
            f"{_FORGOTTEN if is_guarded else _UNGUARDED}"
        )
    restore = f"{down}`netloom journal restore {known}`, `netloom up`"
    if known == source and not is_rescued(known, path):
        return f"the journal is now {known}: put it back (the same file, not a copy of it), or {restore}"
    return f"{known} is {'a copy of the journal' if known == source else 'the newest copy'}: {restore}"


def advice_on_damage(path: str, *, runs: bool) -> str:
    """Says what to do about a journal whose pages are damaged."""
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
