"""The whole journal as one JSON document, and back again without a change in any row.

The document has the tables as they are, with their schema number, so that a later version can read what an
earlier one wrote. A value that JSON has no type for is an object with one key: `ip`, `utf8` or `base64`.
"""

from __future__ import annotations

import sqlite3
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from contextlib import suppress
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ..cni.wire import placed
from . import schema
from .errors import JournalError, reason
from .verification import Fault, columns, faults, tables

_OPERATIONS = "operation"
_IPS = frozenset({"ip", "host_ip"})
# SQLite would convert a number to text, which is another value.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (int, float),
    "BLOB": (bytes,),
}


class InvalidDocument(JournalError):
    """The document cannot become a journal; the text says why. Nothing was changed."""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of a table, each with a value for every column."""

    columns: Annotated[list[str], Meta(description="names, in the order of the values")]
    rows: Annotated[list[list[Any]], Meta(description="strings, numbers, null; `ip`, `utf8` or `base64`")]


class Document(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A journal."""

    format: Annotated[Literal["netloom-journal"], Meta(description="type of document")] = "netloom-journal"
    version: Annotated[Literal[1], Meta(description="version of the document format")] = 1
    schema: Annotated[int, Meta(description="version of the journal's tables")]
    tables: Annotated[Mapping[str, Table], Meta(description="by name")]


def document_of(connection: sqlite3.Connection, version: int, *, operations: bool = True) -> Document:
    """Returns the journal as it is at this moment; the caller has begun a transaction."""
    found = {}
    for table in tables(connection):
        if table == _OPERATIONS and not operations:
            continue
        names = list(columns(connection, table))
        query = f"SELECT {', '.join(names)} FROM {table} ORDER BY {', '.join(_key(connection, table))}"
        rows = [[_shown(*pair) for pair in zip(names, row, strict=True)] for row in connection.execute(query)]
        found[table] = Table(names, rows)
    return Document(schema=version, tables=found)


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    info = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [name for _, name in sorted((row[5], row[1]) for row in info if row[5])]


def _shown(column: str, value: object) -> object:
    if not isinstance(value, bytes):
        return value
    if column in _IPS and len(value) in (4, 16):
        return {"ip": inet_ntop(AF_INET if len(value) == 4 else AF_INET6, value)}
    with suppress(UnicodeDecodeError):
        return {"utf8": value.decode()}
    return {"base64": b64encode(value).decode()}


def decode(data: bytes) -> Document:
    try:
        return msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidDocument(f"this is not an exported journal: {placed(cause, data)}") from None


def built(document: Document) -> tuple[sqlite3.Connection, list[Fault]]:
    """Builds the journal in memory, in this version's schema, and returns the tolerable faults with it.

    Raises `InvalidDocument` for every other fault.
    """
    if not 1 <= document.schema <= schema.VERSION:
        raise InvalidDocument(
            f"the document has schema {document.schema}; this netloom reads 1 to {schema.VERSION}: "
            "import it with the version that exported it, or a later one"
        )
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        schema.migrate(connection, 0, document.schema)
        connection.execute("BEGIN")
        for name in _in_order(connection, document):
            _fill(connection, name, document.tables[name])
        connection.execute("COMMIT")
        schema.migrate(connection, document.schema)
        found = list(faults(connection, schema.VERSION))
        unbearable = [it for it in found if it.kind not in ("plan", "result")]
        if unbearable:
            it = unbearable[0]
            raise InvalidDocument(f"{it.subject}: {it.text}" if it.subject else it.text)
    except BaseException:
        connection.close()
        raise
    return connection, found


def _in_order(connection: sqlite3.Connection, document: Document) -> list[str]:
    """Orders the tables so that a row comes after the rows it refers to."""
    known = tables(connection)
    strange = [name for name in document.tables if name not in known]
    if strange:
        raise InvalidDocument(f"schema {document.schema} has no table {strange[0]!r}")
    lacking = [name for name in known if name not in document.tables and name != _OPERATIONS]
    if lacking:
        raise InvalidDocument(f"table {lacking[0]!r} is missing")
    return sorted(document.tables, key=lambda name: name != "attachment")


def _fill(connection: sqlite3.Connection, name: str, table: Table) -> None:
    known = columns(connection, name)
    if sorted(known) != sorted(table.columns):
        differ = sorted(set(known) ^ set(table.columns)) or table.columns
        raise InvalidDocument(f"table {name}: columns are not those of its schema: {', '.join(differ[:5])}")
    insert = (
        f"INSERT OR REPLACE INTO {name} " if name == "fact" else f"INSERT INTO {name} "
    ) + f"({', '.join(table.columns)}) VALUES ({', '.join('?' * len(table.columns))})"
    for number, row in enumerate(table.rows, 1):
        where = f"table {name}, row {number}"
        if len(row) != len(table.columns):
            raise InvalidDocument(f"{where}: {len(row)} values for {len(table.columns)} columns")
        try:
            values = [_value(it) for it in row]
            for column, value in zip(table.columns, values, strict=True):
                if value is not None and not isinstance(value, _TYPES[known[column]]):
                    raise ValueError(f"{column} cannot be {type(value).__name__}")
            connection.execute(insert, values)
        except (sqlite3.Error, OverflowError, ValueError, NotBase64, OSError) as cause:
            raise InvalidDocument(f"{where}: {reason(cause)}") from None


def _value(shown: Any) -> object:
    match shown:
        case bool() | list():
            raise ValueError(f"a value cannot be {shown!r}")
        case {"ip": str(text), **others} if not others:
            return inet_pton(AF_INET6 if ":" in text else AF_INET, text)
        case {"utf8": str(text), **others} if not others:
            return text.encode()
        case {"base64": str(text), **others} if not others:
            return b64decode(text, validate=True)
        case dict():
            raise ValueError(f"a value has one of the keys ip, utf8, base64, not {', '.join(shown)[:100]}")
    return shown
