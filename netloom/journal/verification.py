"""Checks that a journal is sound: its file, its tables, the references between them, and the values of their
rows.

It only reads. Faults found here do not depend on the kernel; the audit compares the journal with the kernel.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ..cni import CNIError, decode_result
from ..kernel import InvalidPlan, Plan
from . import schema
from .errors import Damaged, reason

# About the file, tables and columns, references between rows, attachments, and the values in them.
Kind: TypeAlias = Literal["file", "tables", "reference", "addressless", "plan", "result", "operation"]

_AT_MOST = 100
# The columns that `records.Seconds` bounds.
_TIMES = (
    ("attachment", "created"), ("attachment", "created_at"), ("operation", "started"),
    ("operation", "duration"), ("address", "allocated"), ("address", "released"),
)  # fmt: skip


class Fault(NamedTuple):
    """`subject` is the attachment, table or row of the fault."""

    kind: Kind
    text: str
    subject: str = ""


def faults(connection: sqlite3.Connection, version: int) -> Iterator[Fault]:
    """Yields the faults. When SQLite cannot read further, the last fault says so."""
    if version == 0:
        yield Fault("tables", "it has no tables: no agent has used it yet")
        return
    try:
        checked = connection.execute(f"PRAGMA integrity_check({_AT_MOST})")
        broken = sum(text != "ok" for (text,) in checked)
        if broken:
            count = f"at least {broken}" if broken >= _AT_MOST else str(broken)
            yield Fault("file", f"its pages are corrupt: SQLite's check found {count} defects")
        missing = list(_missing(connection, version))
        yield from missing
        if broken or missing:
            return  # values read from damaged tables would be guesses
        yield from _of_times(connection)
        yield from _dangling(connection)
        yield from _of_attachments(connection)
        yield from _of_operations(connection)
    except sqlite3.DatabaseError as cause:
        yield Fault("file", f"cannot read it: {reason(cause)}")


def require_whole(connection: sqlite3.Connection, path: str) -> None:
    """Reads every page. Raises `Damaged`, or `sqlite3.DatabaseError` where SQLite stops."""
    (text,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if text != "ok":
        raise Damaged(f"{path} is damaged: some of its pages are corrupt")


def _missing(connection: sqlite3.Connection, version: int) -> Iterator[Fault]:
    """Yields missing tables and columns; a later version may have more."""
    expected = sqlite3.connect(":memory:", isolation_level=None)
    try:
        schema.migrate(expected, 0, min(version, schema.VERSION))
        for table in tables(expected):
            there = columns(connection, table)
            if not there:
                yield Fault("tables", "the table is missing", table)
                continue
            for name in columns(expected, table):
                if name not in there:
                    yield Fault("tables", f"the column {name} is missing", table)
    finally:
        expected.close()


def tables(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    return [name for (name,) in connection.execute(query)]


def columns(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Returns the type of each column, in their order."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}


def _of_times(connection: sqlite3.Connection) -> Iterator[Fault]:
    for table, column in _TIMES:
        query = f"SELECT count(*) FROM {table} WHERE NOT ({column} > -1e11 AND {column} < 1e11)"
        (count,) = connection.execute(query).fetchone()
        if count:
            yield Fault("file", f"{column} is not a valid time in {count} of its rows", table)


def _dangling(connection: sqlite3.Connection) -> Iterator[Fault]:
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield Fault("reference", f"a row refers to a row of {parent} that is not there", table)
    query = (
        "SELECT network, container_id, ifname FROM attachment "
        "WHERE id NOT IN (SELECT attachment FROM address WHERE attachment IS NOT NULL)"
    )
    for key in connection.execute(query):
        yield Fault("addressless", "the attachment has no address", "/".join(key))


def _of_attachments(connection: sqlite3.Connection) -> Iterator[Fault]:
    query = "SELECT network, container_id, ifname, plan, result FROM attachment ORDER BY id"
    for network, container, ifname, plan, result in connection.execute(query):
        key = f"{network}/{container}/{ifname}"
        try:
            Plan.decode(plan)
        except InvalidPlan as error:
            yield Fault("plan", str(error), key)
        try:
            decode_result(result)
        except CNIError as error:
            yield Fault("result", f"its result is invalid: {error}", key)


def _of_operations(connection: sqlite3.Connection) -> Iterator[Fault]:
    for number, phases in connection.execute("SELECT id, phases FROM operation"):
        try:
            msgspec.json.decode(phases, type=dict[str, float])
        except msgspec.MsgspecError as error:
            yield Fault("operation", f"cannot read its phases: {error}", f"operation {number}")
