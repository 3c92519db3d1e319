"""Whether an agent of this version could take a node over: asked before anybody is kept waiting for it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from ..journal import JournalError, Ledger, Unwritable, read_only
from ..journal import schema as journal_schema
from ..journal.file import explained
from ..kernel import Namespace, Scope
from ..modes import table
from .host import look_at
from .node import Settings

# Beside a copy of the journal: what a migration itself, and the first calls after it, may need.
_SPACE = 16 << 20


def require_ready(settings: Settings) -> None:
    """Reads journal and kernel as if it had begun; changes nothing. Raises `JournalError`, `KernelError`."""
    require_readable(settings.journal)
    with Namespace.own() as host:
        look_at(host)
        table.TABLE.check(Scope(host))


def require_readable(path: str) -> None:
    """The whole journal, as we would have it. Raises `JournalError`; nothing is changed.

    One of an older version is migrated in a copy, in memory: so a migration that fails does it here.
    """
    if not os.path.exists(path):
        return
    try:
        with closing(read_only(path)) as connection:
            ledger = Ledger(connection)
            for _ in ledger.attachments():
                pass
            ledger.ports()
            ledger.operations(1)
            (wanted,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause) from None
    _require_space(path, int(wanted))


def _require_space(path: str, wanted: int) -> None:
    """A migration keeps a copy of the journal as it was."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= wanted:
        return
    try:
        free = os.statvfs(os.path.dirname(path))
        needed = os.stat(path).st_size * 2 + _SPACE
    except OSError as cause:
        raise JournalError(f"{path}: {cause.strerror}") from None
    if free.f_bavail * free.f_frsize < needed:
        raise Unwritable(
            f"the journal {path} has schema {version}, and becomes {journal_schema.VERSION}: that needs "
            f"{needed >> 20} MiB on its disk, which has {free.f_bavail * free.f_frsize >> 20}"
        )
