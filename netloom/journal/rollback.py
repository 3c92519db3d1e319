"""Rollback of a journal that a successor migrated to another schema before it failed.

The successor kept a copy before it migrated the journal. If this version cannot read the new schema, the copy
replaces the journal in one transaction. The successor may have answered DELs meanwhile: attachments that are
in the copy but no longer in the journal are marked as deleting, so that the agent removes them.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing

from ..failpoints import failpoint
from . import schema
from .backup import kept_as, pour
from .errors import MissingJournal, NewerSchema
from .file import as_it_is, explained, in_memory
from .file_type import require_database

log = logging.getLogger(__name__)

_KEYS = "SELECT network, container_id, ifname FROM attachment"
_MARK = "UPDATE attachment SET state = 'deleting' WHERE network = ? AND container_id = ? AND ifname = ?"


def roll_back(path: str, version: int) -> None:
    """Rolls back if needed. The caller holds the journal, which had the schema `version` when it was handed
    over.

    A journal that can be read stays unchanged. Raises `NewerSchema` if there is no copy, and `Unwritable`.
    """
    try:
        require_database(path)
    except MissingJournal:
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
    failpoint("migration.undone")
    log.warning("the journal has a schema that this version cannot read; rolled back to %s", copy)


def _put(copy: str, journal: sqlite3.Connection) -> None:
    connection, _ = as_it_is(copy, is_copy=True)
    with closing(connection), closing(in_memory(connection).connection) as before:
        gone = set(before.execute(_KEYS)) - _keys_of(journal, before)
        before.executemany(_MARK, gone)
        pour(before, journal)


def _keys_of(journal: sqlite3.Connection, before: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Returns the keys in an unknown schema. If the keys cannot be read, no attachment counts as deleted."""
    try:
        return set(journal.execute(_KEYS))
    except sqlite3.OperationalError:
        return set(before.execute(_KEYS))
