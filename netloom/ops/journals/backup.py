"""Copies of the journal: as a file, and as a document that any version can read; and checks of a journal."""

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
    "`netloom journal verify` shows what is wrong with the journal; to keep it as it is, copy it with `cp`, "
    "together with journal.db-wal if that exists"
)


class Copied(Struct, frozen=True, kw_only=True):
    """A copy of the journal."""

    path: Annotated[str, Meta(description="the file that was written")]
    schema: Annotated[int, Meta(description="schema version of its tables")]
    bytes: Annotated[int, Meta(description="its size")]
    counts: Annotated[Counts, Meta(description="how much is in it")]


def back_up(journal: str, file: str, *, force: bool) -> Copied:
    """Copies the journal as it is now; without `force`, only to a path that does not exist."""
    _require_place(file, journal, force=force)
    with _of_journal(journal):
        connection, schema = as_it_is(journal)
        with closing(connection):
            connection.execute("BEGIN")
            # A damaged journal must not replace a sound copy.
            require_whole(connection, journal)
            counts = counts_of(connection)
            try:
                copy(connection, file)
            except OSError as cause:
                raise unwritable(file, cause) from None
    return Copied(path=file, schema=schema, bytes=os.stat(file).st_size, counts=counts)


def export(journal: str, *, operations: bool) -> bytes:
    """The whole journal as a JSON document with a line per row, so that two can be compared."""
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
    """Writes that document to a file, and returns its length."""
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
        "check the path: its permissions, what is in its place, and free space on its disk",
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
    """Reports errors of reading the journal as such, not as errors of the file that is written."""
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
        # For example a device, which other programs need.
        raise OperationFailed(
            f"{path} is {what}, which is never replaced; nothing was done",
            "give another FILE",
            code="file-exists",
        )
    if os.path.lexists(path) and not force:
        raise OperationFailed(
            f"{path} already exists; nothing was done", "give another FILE, or --force", code="file-exists"
        )


def _what_is_at(path: str) -> str | None:
    """What is at a path, unless it is a file or nothing."""
    try:
        return other_than_file(os.lstat(path).st_mode)
    except OSError:
        return None


def _is_of(path: str, journal: str) -> bool:
    """Whether the agent writes a path: the file, its log or its lock."""
    ending = os.path.realpath(path)[len(os.path.realpath(journal)) :]
    return ending in ("", "-wal", "-shm", ".lock")


_RESTORE = (
    "run `netloom down`, restore a copy with `netloom journal restore FILE` or move the file away, and run "
    "`netloom up`"
)
_TAKE_ANOTHER = "do not restore this copy: use another, or make one with `netloom journal backup`"
_NOT_THERE = "give the path of an existing copy; without FILE, the node's own journal is checked"
# For each kind of fault: its code, and what to do.
FAULTS = {
    "file": ("journal-damaged", _RESTORE),
    "tables": ("journal-tables", _RESTORE),
    "reference": ("journal-dangling", _RESTORE),
    "addressless": ("attachment-addressless", "delete its container, and create it again"),
    "plan": ("plan-unreadable", "delete its container, and create it again"),
    "result": ("result-unreadable", "delete its container, and create it again"),
    "operation": (
        "operation-unreadable",
        "no action is needed: `netloom explain` shows it without its phases",
    ),
}
# An agent works despite these.
BEARABLE = frozenset({"plan", "result", "operation"})


class Verified(Struct, frozen=True, kw_only=True):
    """A journal, and what is wrong with it."""

    path: Annotated[str, Meta(description="the file")]
    schema: Annotated[int, Meta(description="schema version of its tables")]
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
    """Gives errors of a copy advice that does not touch the node's own journal."""
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
