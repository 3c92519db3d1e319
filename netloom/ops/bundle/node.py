"""Sources on the node: networks' files, the agent's log and metrics, and an extract of the journal."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import msgspec

from ...api.paths import Place
from ...cni.files import read_document
from ...cni.load import LISTS, SINGLE_PLUGINS
from ...journal import JournalError
from ...journal.errors import reason
from ...journal.file_type import require_database
from ...kernel.values import shown_ip
from ..control.asking import settle
from .archive import Asked, Found, Member, MissingMember

_TABLES = ("attachment", "address", "port", "operation", "cursor", "fact")
_EXTRACTS = (
    ("attachments", "attachment", "ORDER BY id", "attachments and their plans"),
    ("addresses", "address", "", "addresses that are held or resting"),
    ("ports", "port", "", "host ports"),
    ("operations", "operation", "ORDER BY id DESC", "the last operations, the latest first"),
)
_NAMES = ("network", "pod", "namespace", "uid", "container_id", "netns")
_DOCUMENTS = frozenset({"plan", "result"})
_ABOUT = "the journal's files, schema and number of rows"
_MOST = 5000
_PATIENCE = 10.0
# Instructions of SQLite's machine between two checks of the deadline.
_STEPS = 10_000


def journal(asked: Asked) -> Iterator[Found]:
    path = asked.journal
    behind = settle(asked.socket)
    files = _files(asked.state_dir)
    if not os.path.exists(path):
        yield MissingMember("journal/summary.json", _ABOUT, f"{path} does not exist")
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
        yield MissingMember("journal/", "the journal", f"{path} cannot be read: {reason(cause)}")
        yield Member(name="journal/files.json", about="files of the journal", document=files)


def names_of(asked: Asked) -> Iterator[tuple[str, str]]:
    """Columns, and the names in them of present and past attachments, which `--anonymous` replaces."""
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
    # Invalid text must not keep the rest from being read.
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
        return MissingMember(f"journal/{name}.jsonl", about, f"the journal has no table {table}")
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


_LARGEST_FILE = 1 << 20
_ABOUT_NETWORK = "a network's configuration, without values that look like secrets"


def networks(asked: Asked) -> Iterator[Found]:
    try:
        names = sorted(os.listdir(asked.conf_dir))
    except OSError as cause:
        yield MissingMember(
            "networks/", "networks' configuration files", f"{asked.conf_dir}: {cause.strerror}"
        )
        return
    yield Member(
        name="networks/listing.json",
        about="all files in the directory of networks",
        document=[_listed(asked.conf_dir, name) for name in names],
    )
    for name in names:
        if name.endswith(LISTS + SINGLE_PLUGINS):
            yield _read_network(os.path.join(asked.conf_dir, name), f"networks/{name}")


def _listed(directory: str, name: str) -> dict[str, object]:
    try:
        status = os.stat(os.path.join(directory, name), follow_symlinks=False)
    except OSError as cause:
        return {"name": name, "error": cause.strerror}
    return {
        "name": name,
        "size": status.st_size,
        "mode": stat.filemode(status.st_mode),
        "owner": status.st_uid,
        "changed": status.st_mtime,
    }


def _read_network(path: str, name: str) -> Found:
    try:
        source = read_document(path, limit=_LARGEST_FILE)
    except (OSError, ValueError) as cause:
        return MissingMember(name, _ABOUT_NETWORK, f"{path}: {getattr(cause, 'strerror', None) or cause}")
    try:
        return Member(name=name, about=_ABOUT_NETWORK, document=msgspec.json.decode(source), is_ours=False)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        text = source.decode(errors="replace")
        return Member(
            name=name, about=_ABOUT_NETWORK, text=text, error=f"it is not JSON: {cause}", is_ours=False
        )


_MOST_OF_A_LOG = 1 << 20
_ABOUT_LOG = "the agent's log"
_LOG_LINES = 5000
_JOURNALCTL_PATIENCE = 10.0


def logs(asked: Asked) -> Iterator[Found]:
    found = 0
    place = Place(asked.state_dir, asked.socket)
    for path in (place.log, place.earlier_log):
        name = os.path.basename(path)
        try:
            text, cut = _tail(path)
        except FileNotFoundError:
            continue
        except OSError as cause:
            yield MissingMember(f"log/{name}", _ABOUT_LOG, f"{path}: {cause.strerror}")
            continue
        found += 1
        yield Member(name=f"log/{name}", about=_ABOUT_LOG, text=text, newest_last=True, cut=cut)
    kept = _of_the_service_manager()
    if kept:
        yield kept
    elif not found:
        yield MissingMember(
            f"log/{os.path.basename(place.log)}",
            _ABOUT_LOG,
            f"there is no log in {asked.state_dir} or in systemd",
        )


def _tail(path: str) -> tuple[str, str]:
    """The end of a file from the first complete line on, and how it was cut."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        file.seek(max(size - _MOST_OF_A_LOG, 0))
        data = file.read(_MOST_OF_A_LOG)
    if size <= _MOST_OF_A_LOG:
        return data.decode(errors="replace"), ""
    _, _, whole = data.partition(b"\n")
    return whole.decode(errors="replace"), f"the last {len(whole)} of {size} bytes"


def _of_the_service_manager() -> Member | None:
    """The unit's log in systemd's journal; None if there is none."""
    program = shutil.which("journalctl")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-u", "netloom", "-n", str(_LOG_LINES), "--no-pager", "-o", "short-iso", "--quiet"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_JOURNALCTL_PATIENCE,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = done.stdout.decode(errors="replace")
    if done.returncode or not text.strip() or text.startswith("-- No entries"):
        return None
    return Member(
        name="log/systemd.log", about=f"{_ABOUT_LOG}, as systemd keeps it", text=text, newest_last=True
    )


_DEFAULT_LISTEN = "127.0.0.1:9478"
_ABOUT_METRICS = "the agent's metrics"
_METRICS = "metrics.txt"
_METRICS_PATIENCE = 3.0
_MOST_METRICS = 4 << 20


def metrics(_asked: Asked) -> Iterator[Found]:
    place = os.environ.get("NETLOOM_METRICS_LISTEN") or _DEFAULT_LISTEN
    if place == "none":
        yield MissingMember(
            _METRICS, _ABOUT_METRICS, "NETLOOM_METRICS_LISTEN is none: the agent serves no metrics"
        )
        return
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or not _is_loopback(host):
        yield MissingMember(_METRICS, _ABOUT_METRICS, f"{place} is not a loopback address, and was not asked")
        return
    try:
        head, _, body = _answer(host, int(port)).partition(b"\r\n\r\n")
    except OSError as cause:
        yield MissingMember(
            _METRICS, _ABOUT_METRICS, f"nothing answers at {place}: {cause.strerror or cause}"
        )
        return
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if b" 200" not in head[:20]:
        yield MissingMember(_METRICS, _ABOUT_METRICS, f"{place} answered: {status[:100]}")
        return
    yield Member(name=_METRICS, about=_ABOUT_METRICS, text=body.decode(errors="replace"))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _answer(host: str, port: int) -> bytes:
    deadline = time.monotonic() + _METRICS_PATIENCE
    with socket.create_connection((host, port), timeout=_METRICS_PATIENCE) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")
        received = b""
        while len(received) < _MOST_METRICS:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = connection.recv(1 << 16)
            if not chunk:
                break
            received += chunk
    return received
