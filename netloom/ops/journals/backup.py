"""Copies of the journal: as a file, and as a document that any version can read. And whether one is sound."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from ...api.findings import Finding, any_error
from ...cni.wire import encode_in_order
from ...journal.backup import copy, replacing
from ...journal.document import Document, document_of
from ...journal.errors import Damaged, MissingJournal, Unreadable, reason
from ...journal.file import as_it_is
from ...journal.file import explained as told
from ...journal.file_type import other_than_file
from ...journal.verification import Fault, faults, require_whole
from ..errors import OperationFailed, UsageError
from .reading import Counts, code_of, counts_of, explained

_LOOK = (
    "`netloom journal verify` tells what is wrong with the journal; to keep it as it is, copy it with `cp`, "
    "together with journal.db-wal if that is there"
)


class Copied(Struct, frozen=True, kw_only=True):
    """A copy of the journal."""

    path: Annotated[str, Meta(description="the file that was written")]
    schema: Annotated[int, Meta(description="of its tables")]
    bytes: Annotated[int, Meta(description="its size")]
    counts: Annotated[Counts, Meta(description="how much is in it")]


def back_up(journal: str, file: str, *, force: bool) -> Copied:
    """Copies the journal as it is at this moment; without `force`, only to a path that is free."""
    _require_place(file, journal, force=force)
    with _of_journal(journal):
        connection, schema = as_it_is(journal)
        with closing(connection):
            connection.execute("BEGIN")
            # One that is damaged is told before it takes the place of a copy that is not.
            require_whole(connection, journal)
            counts = counts_of(connection)
            try:
                copy(connection, file)
            except OSError as cause:
                raise unwritable(file, cause) from None
    return Copied(path=file, schema=schema, bytes=os.stat(file).st_size, counts=counts)


def export(journal: str, *, operations: bool) -> bytes:
    """The whole journal as a JSON document, a row a line: two can be compared, and a large one be read."""
    document = _document(journal, operations=operations)
    tables = []
    for name, table in document.tables.items():
        rows = b",\n".join(encode_in_order(row) for row in table.rows)
        head = encode_in_order(name) + b':{"columns":' + encode_in_order(table.columns) + b',"rows":['
        tables.append(head + (b"\n" + rows + b"\n" if rows else b"") + b"]}")
    head = encode_in_order(
        {"format": document.format, "version": document.version, "schema": document.schema}
    )
    return head[:-1] + b',"tables":{\n' + b",\n".join(tables) + b"\n}}\n"


def export_to(journal: str, file: str, *, operations: bool, force: bool) -> int:
    """Writes that document to a file, and gives back how long it is."""
    _require_place(file, journal, force=force)
    data = export(journal, operations=operations)
    try:
        with replacing(file) as spare, open(spare, "wb") as opened:
            opened.write(data)
    except OSError as cause:
        raise unwritable(file, cause) from None
    return len(data)


def unwritable(path: str, cause: OSError | sqlite3.DatabaseError) -> OperationFailed:
    why = cause.strerror if isinstance(cause, OSError) else reason(cause)
    return OperationFailed(
        f"cannot write {path}: {why}",
        "look at the path: its permissions, what is in its place, and space on its disk",
        code="file-unwritable",
    )


def _document(path: str, *, operations: bool) -> Document:
    with explained():
        connection, schema = as_it_is(path)
        with closing(connection):
            connection.execute("BEGIN")
            try:
                return document_of(connection, schema, operations=operations)
            except sqlite3.DatabaseError as cause:
                raise told(path, cause) from None


@contextmanager
def _of_journal(path: str) -> Iterator[None]:
    """What keeps it from being read is no fault of the file that is written."""
    with explained():
        try:
            try:
                yield
            except sqlite3.DatabaseError as cause:
                raise told(path, cause, reading=True) from None
        except (Damaged, Unreadable) as error:
            raise OperationFailed(f"{error}; nothing was written", _LOOK, code=code_of(error)) from None


def _require_place(path: str, journal: str, *, force: bool) -> None:
    if os.path.realpath(path).startswith(os.path.realpath(journal)) and _is_of(path, journal):
        raise UsageError(f"{path} is the journal itself", "give another FILE")
    what = _what_is_at(path)
    if what is not None:
        # A device, say: with a file in its place, others would not find it any more.
        raise OperationFailed(
            f"{path} is {what}, which is never replaced; nothing was done",
            "give another FILE",
            code="file-exists",
        )
    if os.path.lexists(path) and not force:
        raise OperationFailed(
            f"{path} is there already; nothing was done", "give another FILE, or --force", code="file-exists"
        )


def _what_is_at(path: str) -> str | None:
    """If it is no file."""
    try:
        return other_than_file(os.lstat(path).st_mode)
    except OSError:
        return None


def _is_of(path: str, journal: str) -> bool:
    """What the agent writes: the file, its log and its lock."""
    ending = os.path.realpath(path)[len(os.path.realpath(journal)) :]
    return ending in ("", "-wal", "-shm", ".lock")


_RESTORE = (
    "`netloom down`, put a copy back with `netloom journal restore FILE` or move the file away, `netloom up`"
)
_TAKE_ANOTHER = "do not put this copy back: take another, or make one with `netloom journal backup`"
_NOT_THERE = "give the path of a copy that is there; without FILE, the node's own journal is looked at"
# For each kind of fault: its code, and what to do.
FAULTS = {
    "file": ("journal-damaged", _RESTORE),
    "tables": ("journal-tables", _RESTORE),
    "reference": ("journal-dangling", _RESTORE),
    "addressless": ("attachment-addressless", "delete its container, and make it anew"),
    "plan": ("plan-unreadable", "delete its container, and make it anew"),
    "result": ("result-unreadable", "delete its container, and make it anew"),
    "operation": ("operation-unreadable", "nothing: `netloom explain` shows it without its phases"),
}
# An agent works on with these.
BEARABLE = frozenset({"plan", "result", "operation"})


class Verified(Struct, frozen=True, kw_only=True):
    """A journal, and what is wrong with it."""

    path: Annotated[str, Meta(description="the file")]
    schema: Annotated[int, Meta(description="of its tables")]
    counts: Annotated[Counts | None, Meta(description="how much is in it; null if it cannot be counted")]
    findings: Annotated[list[Finding], Meta(description="what is wrong; empty if it is sound")]


def verify(path: str, *, is_copy: bool = False) -> Verified:
    with explained(), _of_copy(is_copy):
        connection, schema = as_it_is(path, is_copy=is_copy)
    with closing(connection):
        connection.execute("BEGIN")
        findings = [finding_of(fault, path, is_copy=is_copy) for fault in faults(connection, schema)]
        counts = None if any_error(findings) else counts_of(connection)
    return Verified(path=path, schema=schema, counts=counts, findings=findings)


@contextmanager
def _of_copy(is_copy: bool) -> Iterator[None]:
    """What is wrong with a copy is no reason to touch the node's own journal."""
    try:
        yield
    except (Damaged, MissingJournal) as error:
        if not is_copy:
            raise
        advice = _NOT_THERE if isinstance(error, MissingJournal) else _TAKE_ANOTHER
        raise OperationFailed(str(error), advice, code=code_of(error)) from None


def finding_of(fault: Fault, path: str, *, is_copy: bool = False) -> Finding:
    code, advice = FAULTS[fault.kind]
    if is_copy and advice == _RESTORE:
        advice = _TAKE_ANOTHER
    subject = fault.subject or path
    return Finding(
        code=code,
        text=f"{subject}: {fault.text}",
        next=advice,
        subject=subject,
        severity="warning" if fault.kind in BEARABLE else "error",
    )
