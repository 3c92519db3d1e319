"""Replaces the journal with a copy or an exported document: in one step, while no agent can use it.

The previous journal is kept.

A log without its file is dangerous: SQLite takes any log beside a file for that file's log, and mixes the
pages of both. So the old log is first merged into its own file, or moved away with it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from ...api.findings import Finding
from ...api.paths import Place, default_socket
from ...api.times import shown
from ...cni import AttachmentKey
from ...cni.files import read_document
from ...failpoints import failpoint
from ...journal import Damaged, JournalError, Ledger, lost
from ...journal.backup import copy, replaced_as
from ...journal.document import InvalidDocument, built, decode
from ...journal.errors import reason
from ...journal.file import as_it_is
from ...journal.file import explained as told
from ...journal.lock import locked
from ...journal.moved_file import remove_empty_log
from ...journal.verification import require_whole
from ...kernel import KernelError, Namespace
from ..control.process import user
from ..errors import OperationFailed, UsageError
from ..node.orphans import orphans_at
from .backup import finding_of, unwritable
from .reading import Counts, advice_on, code_of, counts_of, explained

# Raises unless the present journal, which can be read, may be replaced.
Require: TypeAlias = Callable[[sqlite3.Connection], None]

_LOGS = ("-wal", "-shm")
_NAMED = 3
_LARGEST = 1 << 30


class Restored(Struct, frozen=True, kw_only=True):
    """The restored journal."""

    path: Annotated[str, Meta(description="the journal")]
    schema: Annotated[int, Meta(description="schema version of its tables; the next agent migrates them")]
    counts: Annotated[Counts, Meta(description="how much is in it")]
    replaced: Annotated[
        str | None,
        Meta(description="where the previous journal is now, or its log (-wal) if only that existed"),
    ]
    unknown_links: Annotated[
        list[str], Meta(description="links of netloom on this host that no attachment in it has")
    ]


class Imported(Struct, frozen=True, kw_only=True):
    """The imported journal."""

    path: Annotated[str, Meta(description="the journal")]
    counts: Annotated[Counts, Meta(description="how much is in it")]
    replaced: Annotated[str | None, Meta(description="where the previous journal is now")]
    findings: Annotated[
        list[Finding], Meta(description="what is wrong in the document, but does not prevent its use")
    ]


def restore(path: str, file: str, *, force: bool) -> Restored:
    """Restores a copy. `force`: even if it lacks attachments of the journal, or another copy is newer."""
    if os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
        raise UsageError(f"{file} is the journal itself", "give a copy of it")
    require_no_agent(path)
    with _of_copy(file, path):
        connection, schema = as_it_is(file, is_copy=True)
        with closing(connection):
            connection.execute("BEGIN")
            if schema == 0:
                raise Damaged(f"{file} is not a journal: it has no tables")
            require_whole(connection, file)
            counts, known = counts_of(connection), set(_keys(connection))
            if not force:
                _require_newest(path, file, lost.latest_of(connection))

            def require(journal: sqlite3.Connection) -> None:
                if not force:
                    _require_known([key for key in _keys(journal) if key not in known], path, file)

            replaced = put(connection, path, require, over_damage=True)
            links = _unknown_links(connection)
    return Restored(path=path, schema=schema, counts=counts, replaced=replaced, unknown_links=links)


def import_document(path: str, file: str, *, force: bool) -> Imported:
    """Makes a journal of an exported document. `force`: even if the present one has attachments."""
    try:
        journal, faults = built(decode(_read(file)))
    except InvalidDocument as error:
        raise OperationFailed(
            f"{file}: {error}; nothing was changed",
            "give an unchanged document of `netloom journal export`",
            code="import-invalid",
        ) from None
    with closing(journal):
        return Imported(
            path=path,
            counts=counts_of(journal),
            replaced=put(journal, path, _require_empty(path, force=force), over_damage=force),
            findings=[finding_of(fault, file) for fault in faults],
        )


def put(journal: sqlite3.Connection, path: str, require: Require, *, over_damage: bool) -> str | None:
    """Replaces the journal. Returns where the previous one is. Replaces a damaged one only `over_damage`."""
    require_no_agent(path)
    lock = _locked(path)
    try:
        if not os.path.lexists(path):
            return _put_alone(journal, path)
        if _is_readable(path, require, over_damage=over_damage):
            aside = _put_over(journal, path)
        else:
            aside = _put_over_damage(journal, path)
        failpoint("restore.done")
        return aside
    except (OSError, sqlite3.DatabaseError) as cause:
        raise unwritable(path, cause) from None
    finally:
        os.close(lock)


def require_no_agent(path: str) -> None:
    """Raises if an agent runs. A copy may be its own file, which was moved and which it still writes."""
    if user(Place(os.path.dirname(path), default_socket())) is not None:
        raise _in_use(path)


def _locked(path: str) -> int:
    try:
        with explained():
            return locked(path)
    except OperationFailed as error:
        if error.code == "journal-in-use":
            raise _in_use(path) from None
        raise


def _in_use(path: str) -> OperationFailed:
    return OperationFailed(
        f"an agent runs and uses {path}; nothing was changed",
        "stop it with `netloom down`, try again, and start it with `netloom up`",
        code="journal-in-use",
    )


def _is_readable(path: str, require: Require, *, over_damage: bool) -> bool:
    try:
        connection, _ = as_it_is(path, is_copy=True)  # the lock keeps others out
        with closing(connection):
            require(connection)
    except (JournalError, sqlite3.DatabaseError) as cause:
        if over_damage:
            return False
        raise OperationFailed(
            f"{path} cannot be read: {reason(cause)}; nothing was changed",
            "check it with `netloom journal verify`, or replace it with --force, which keeps the file",
            code="journal-damaged",
        ) from None
    return True


def _put_over(journal: sqlite3.Connection, path: str) -> str:
    aside = _free(path)
    connection, _ = as_it_is(path)
    with closing(connection):
        copy(connection, aside)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    failpoint("restore.aside")
    copy(journal, path)
    return aside


def _put_over_damage(journal: sqlite3.Connection, path: str) -> str:
    """Keeps a file that SQLite cannot copy, with its log. At every moment, one name has both."""
    aside = _free(path)
    os.link(path, aside, follow_symlinks=False)
    try:
        _move_logs(path, aside)
        failpoint("restore.aside")
        copy(journal, path)
    except BaseException:
        _move_logs(aside, path)
        with suppress(OSError):
            os.unlink(aside)
        raise
    return aside


def _put_alone(journal: sqlite3.Connection, path: str) -> str | None:
    """Puts a journal where none is. Keeps the log of a removed one, unless it is empty."""
    remove_empty_log(path)
    aside = _free(path)
    is_kept = _move_logs(path, aside)
    copy(journal, path)
    return f"{aside}-wal" if is_kept else None


def _move_logs(path: str, to: str) -> bool:
    is_moved = False
    for ending in _LOGS:
        with suppress(FileNotFoundError):
            os.rename(path + ending, to + ending)
            is_moved |= ending == "-wal"
    return is_moved


def _free(path: str) -> str:
    number = 1
    while any(os.path.lexists(f"{replaced_as(path, number)}{ending}") for ending in ("", *_LOGS)):
        number += 1
    return replaced_as(path, number)


def _unknown_links(journal: sqlite3.Connection) -> list[str]:
    """Our links that the journal does not have. Empty if the kernel fails: the restore is done anyway."""
    try:
        with Namespace.own() as host:
            return sorted(orphans_at(host, lambda question: question(Ledger(journal))))
    except (KernelError, sqlite3.DatabaseError):
        return []


@contextmanager
def _of_copy(file: str, path: str) -> Iterator[None]:
    """Reports errors of reading the copy as such, not as errors of the journal."""
    try:
        try:
            yield
        except sqlite3.DatabaseError as cause:
            raise told(file, cause, reading=True) from None
    except JournalError as error:
        advice = advice_on(error) if code_of(error) == "journal-newer" else _whole(path)
        raise OperationFailed(f"{error}; nothing was changed", advice, code=code_of(error)) from None


def _whole(path: str) -> str:
    newest = lost.newest(path)
    return (
        f"`netloom journal restore {newest}` restores the newest copy" if newest else "give an undamaged copy"
    )


def _keys(connection: sqlite3.Connection) -> list[AttachmentKey]:
    return [it.key for it in Ledger(connection).places()]


def _require_newest(path: str, file: str, latest: float) -> None:
    newest = next(iter(lost.copies(path)[::-1]), None)
    if newest is None or newest.latest <= latest or os.path.samefile(newest.path, file):
        return
    raise OperationFailed(
        f"{newest.path}, which netloom kept, is newer: it ends at {shown(newest.latest)}, and {file} at "
        f"{shown(latest)}; nothing was changed",
        f"run `netloom journal restore {newest.path}`, or give --force",
        code="journal-older",
    )


def _require_known(unknown: list[AttachmentKey], path: str, file: str) -> None:
    if not unknown:
        return
    named = ", ".join(map(str, unknown[:_NAMED])) + (", …" if len(unknown) > _NAMED else "")
    count = "an attachment" if len(unknown) == 1 else f"{len(unknown)} attachments"
    raise OperationFailed(
        f"{path} has {count} that {file} does not have: {named}; nothing was changed",
        "delete their containers first, or give --force: running containers keep their networks, but the "
        "next agent does not know them",
        code="journal-not-empty",
    )


def _read(path: str) -> bytes:
    try:
        return read_document(path, limit=_LARGEST)
    except OSError as cause:
        raise UsageError(f"cannot read {path}: {cause.strerror}", "give the path of a file") from None


def _require_empty(path: str, *, force: bool) -> Require:
    """A check that allows the replacement of a journal with attachments only by force."""

    def require(journal: sqlite3.Connection) -> None:
        attachments = counts_of(journal).attachments
        if attachments and not force:
            raise OperationFailed(
                f"{path} has {attachments} attachments; nothing was changed",
                "delete their containers first, or give --force: running containers keep their networks, "
                "but the next agent does not know them",
                code="journal-not-empty",
            )

    return require
