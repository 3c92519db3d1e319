"""The journal is taken back from a successor that gave it another schema, and then came to nothing.

That one kept a copy before it changed anything. Where we cannot read what it made of the journal, the copy is
put in its place, in one transaction. It may have finished some DELs meanwhile, and whoever asked for them has
been told: what is in the copy and no longer in the journal is marked, and so taken away again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing

from ..failpoints import reach
from . import schema
from .backup import kept_as, pour
from .errors import Missing, NewerSchema
from .file import as_it_is, explained, in_memory
from .kinds import require_database

log = logging.getLogger(__name__)

_KEYS = "SELECT network, container_id, ifname FROM attachment"
_MARK = "UPDATE attachment SET state = 'deleting' WHERE network = ? AND container_id = ? AND ifname = ?"


def take_back(path: str, version: int) -> None:
    """Whoever calls holds the journal, which had the schema `version` when it was given away.

    What can be read stays as it is. Raises `NewerSchema` if there is no copy, and `Unwritable`.
    """
    try:
        require_database(path)
    except Missing:
        return
    copy = kept_as(path, version)
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as journal:
            try:
                schema.require_known(journal, path)
            except NewerSchema:
                if not os.path.lexists(copy):
                    raise
                _put(copy, journal)
            else:
                return
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause) from None
    reach("migration.undone")
    log.warning("the journal got a schema that this version cannot read; it is again as %s has it", copy)


def _put(copy: str, journal: sqlite3.Connection) -> None:
    connection, _ = as_it_is(copy, is_copy=True)
    with closing(connection), closing(in_memory(connection).connection) as before:
        gone = set(before.execute(_KEYS)) - _keys_of(journal, before)
        before.executemany(_MARK, gone)
        pour(before, journal)


def _keys_of(journal: sqlite3.Connection, before: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Of a schema that we do not know: if it does not tell us, nothing is gone."""
    try:
        return set(journal.execute(_KEYS))
    except sqlite3.OperationalError:
        return set(before.execute(_KEYS))
