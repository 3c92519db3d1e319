"""Whether an agent of this version could take a node over: asked before anybody is kept waiting for it."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from contextlib import closing

from ...journal import JournalError, Ledger, Unwritable, read_only
from ...journal import schema as journal_schema
from ...journal.file import explained
from ...kernel import KernelError, Namespace, Scope
from ...networks import table
from ...ops.node.host import look_at
from ..settings import Settings

log = logging.getLogger(__name__)

# How long the kernel is asked for lists that change while it lists them, as on a node that has much to do.
_PATIENCE = 10.0
_PAUSE = 0.1
# Beside a copy of the journal: what a migration itself, and the first calls after it, may need.
_SPACE = 16 << 20


def require_ready(settings: Settings, patience: float = _PATIENCE) -> None:
    """Reads journal and kernel as if it had begun; changes nothing. Raises `JournalError`, `KernelError`.

    Nobody waits for us yet, and calls go on meanwhile: a list that they interrupt is asked for again.
    """
    require_readable(settings.journal)
    deadline = time.monotonic() + patience
    told = False
    while True:
        try:
            with Namespace.own() as host:
                look_at(host)
                table.TABLE.check(Scope(host))
            return
        except KernelError as error:
            if error.errno != errno.EINTR or time.monotonic() >= deadline:
                raise
            if not told:
                log.info("not ready to follow yet, trying again: %s", error)
            told = True
        time.sleep(_PAUSE)


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
