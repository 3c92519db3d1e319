"""An extract of the journal, read as the tables that it is: also of one that a later netloom wrote."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import msgspec

from ...journal import JournalError
from ...journal.causes import reason
from ...journal.kinds import require_database
from ...kernel.values import shown_ip
from ..settling import settle
from .member import Asked, Found, Member, Trouble

_TABLES = ("attachment", "address", "port", "operation", "cursor", "fact")
_EXTRACTS = (
    ("attachments", "attachment", "ORDER BY id", "what is attached, and the plans"),
    ("addresses", "address", "", "addresses that are held, or rest"),
    ("ports", "port", "", "ports of the host"),
    ("operations", "operation", "ORDER BY id DESC", "the last operations, the latest first"),
)
_NAMES = ("network", "pod", "namespace", "uid", "container_id", "netns")
_DOCUMENTS = frozenset({"plan", "result"})
_ABOUT = "what the journal is, and how much is in it"
_MOST = 5000
_PATIENCE = 10.0
# Steps of SQLite's machine between two looks at the clock.
_STEPS = 10_000


def journal(asked: Asked) -> Iterator[Found]:
    path = asked.journal
    behind = settle(asked.socket)
    files = _files(asked.state_dir)
    if not os.path.exists(path):
        yield Trouble("journal/summary.json", _ABOUT, f"there is no {path}")
        return
    try:
        require_database(path)
        with closing(_opened(path)) as connection:
            yield Member(
                name="journal/summary.json",
                about=_ABOUT,
                document={"path": path, "files": files, **_summary(connection)},
                error=behind,
            )
            for name, table, order, about in _EXTRACTS:
                most = asked.operations if table == "operation" else _MOST
                yield _rows(connection, name, table, order, most, about)
    except (JournalError, sqlite3.Error) as cause:
        yield Trouble("journal/", "the journal", f"{path} cannot be read: {reason(cause)}")
        yield Member(name="journal/files.json", about="files of the journal", document=files)


def names_of(asked: Asked) -> Iterator[tuple[str, str]]:
    """Columns and names in them, of what is attached or was: what `--anonymous` replaces."""
    settle(asked.socket)
    try:
        require_database(asked.journal)
        with closing(_opened(asked.journal)) as connection:
            for table in ("attachment", "operation"):
                columns = _columns(connection, table)
                for column in _NAMES:
                    if column in columns:
                        for (name,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}"):
                            yield column, str(name)
    except (JournalError, sqlite3.Error):
        return


def _opened(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, isolation_level=None, timeout=2
    )
    deadline = time.monotonic() + _PATIENCE
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    # What is not text all the same must not keep the rest from being read.
    connection.text_factory = lambda data: data.decode(errors="replace")
    return connection


def _files(state_dir: str) -> list[dict[str, Any]]:
    found = []
    try:
        names = sorted(os.listdir(state_dir))
    except OSError:
        return []
    for name in names:
        try:
            status = os.stat(os.path.join(state_dir, name), follow_symlinks=False)
        except OSError:
            continue
        found.append({"name": name, "size": status.st_size, "changed": status.st_mtime})
    return found


def _summary(connection: sqlite3.Connection) -> dict[str, Any]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    known = [table for table in _TABLES if _columns(connection, table)]
    counts = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in known}
    summary: dict[str, Any] = {
        "schema": version,
        "application_id": application,
        "journal_mode": mode,
        "rows": counts,
    }
    if "attachment" in known:
        states = connection.execute("SELECT state, count(*) FROM attachment GROUP BY state")
        summary["attachments"] = dict(states.fetchall())
    if "address" in known:
        resting = "SELECT count(*) FROM address WHERE attachment IS NULL"
        summary["resting"] = connection.execute(resting).fetchone()[0]
    if "fact" in known:
        summary["facts"] = dict(connection.execute("SELECT name, value FROM fact").fetchall())
    return summary


def _rows(connection: sqlite3.Connection, name: str, table: str, order: str, most: int, about: str) -> Found:
    columns = _columns(connection, table)
    if not columns:
        return Trouble(f"journal/{name}.jsonl", about, f"the journal has no table {table}")
    (total,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    listed = connection.execute(f"SELECT * FROM {table} {order} LIMIT ?", (most,))
    rows = [
        {column: _shown(column, value) for column, value in zip(columns, row, strict=True)} for row in listed
    ]
    cut = f"{len(rows)} of {total} rows" if total > len(rows) else ""
    return Member(name=f"journal/{name}.jsonl", about=about, rows=rows, cut=cut)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _shown(column: str, value: Any) -> Any:
    if column in _DOCUMENTS and isinstance(value, bytes | str):
        try:
            return msgspec.json.decode(value)
        except (msgspec.MsgspecError, ValueError):
            return {"unreadable": len(value)}
    if isinstance(value, bytes):
        return shown_ip(value) if len(value) in (4, 16) else value.hex()
    return value
