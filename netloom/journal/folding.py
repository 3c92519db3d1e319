"""The journal as one file, once its agent has ended: an agent that was killed leaves a log beside it.

Whoever then copies the file alone would miss what is in the log; and whoever puts another file in its place
would have the two mixed.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress

from .errors import JournalError
from .kinds import require_database
from .lock import locked


def fold(path: str) -> None:
    """If nobody has it. What is wrong with it is for others to say."""
    if not os.path.exists(path) or not os.path.exists(f"{path}-wal"):
        return
    with suppress(JournalError, sqlite3.DatabaseError):
        lock = locked(path)
        try:
            require_database(path)
            with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as connection:
                # Whoever closes it last removes the log.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            os.close(lock)
