"""Make a journal of a document that `netloom journal export` wrote: where there is none, or an empty one.

All of it is judged before anything is changed, and then it appears in one step. An agent must not run; a
journal with attachments is replaced with --force only. Whatever journal was there is kept beside it. When the
next agent starts, it releases what another boot, or another machine, has attached: addresses rest then.

examples:
  netloom down; netloom journal import journal.json; netloom up
  netloom journal import --force journal.json
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from contextlib import closing, suppress
from typing import Annotated

from msgspec import Meta, Struct

from ...cni.files import read_document
from ...findings import Finding
from ...journal import JournalError
from ...journal.backup import copy
from ...journal.document import InvalidDocument, built, decode
from ...journal.file import as_it_is, locked
from ..arguments import add_json
from ..failure import CommandFailed, UsageError
from ..finding_view import finding_lines
from ..journal import explained, journal_path
from ..output import printable, require_output, say
from ..place import absolute, add_state_dir
from ..privileges import require_root
from ..views import for_a_person, print_json
from .backup import unwritable
from .counted import Counts, counts_of
from .verify import finding_of

_LARGEST = 1 << 30


class Imported(Struct, frozen=True, kw_only=True):
    """The journal that was made."""

    path: Annotated[str, Meta(description="the journal")]
    counts: Annotated[Counts, Meta(description="how much is in it")]
    replaced: Annotated[str | None, Meta(description="where the journal is that was there before")]
    findings: Annotated[list[Finding], Meta(description="what was wrong in the document, and can be borne")]


OUTPUT = Imported


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="what was exported")
    parser.add_argument("--force", action="store_true", help="also over a journal that has attachments")
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("writing the journal")
    path = journal_path(args.state_dir)
    try:
        journal, faults = built(decode(_read(args.file)))
    except InvalidDocument as error:
        raise CommandFailed(
            f"{args.file}: {error}; nothing was changed",
            "give a document that `netloom journal export` wrote, as it wrote it",
            code="import-invalid",
        ) from None
    with closing(journal):
        done = Imported(
            path=path,
            counts=counts_of(journal),
            replaced=_put(journal, path, force=args.force),
            findings=[finding_of(fault, args.file) for fault in faults],
        )
    if for_a_person(args.json):
        for finding in done.findings:
            say(*finding_lines(finding))
        say(f"{printable(path)}: {done.counts.sentence()}")
        if done.replaced:
            say(f"the journal that was there is {printable(done.replaced)}")
    else:
        print_json(done)
    return 0


def _read(path: str) -> bytes:
    try:
        return read_document(path, limit=_LARGEST)
    except OSError as cause:
        raise UsageError(f"cannot read {path}: {cause.strerror}", "give the path of a file") from None


def _put(journal: sqlite3.Connection, path: str, *, force: bool) -> str | None:
    """While nobody else can have it. Where the one before it is."""
    try:
        with explained():
            lock = locked(path)
    except CommandFailed as error:
        if error.code == "journal-in-use":
            raise CommandFailed(
                f"an agent runs, and has {path}; nothing was changed",
                "stop it with `netloom down`, import, and start it with `netloom up`",
                code="journal-in-use",
            ) from None
        raise
    try:
        replaced = _replaced(journal, path, force=force)
    except (OSError, sqlite3.DatabaseError) as cause:
        raise unwritable(path, cause) from None
    finally:
        os.close(lock)
    return replaced


def _replaced(journal: sqlite3.Connection, path: str, *, force: bool) -> str | None:
    if not os.path.exists(path):
        copy(journal, path)
        return None
    aside = _free(path)
    if not _is_readable(path, force=force):
        _move(path, aside)
        try:
            copy(journal, path)
        except BaseException:
            _move(aside, path)
            raise
        return aside
    connection, _ = as_it_is(path)
    with closing(connection):
        copy(connection, aside)
    # Its own log goes into the file: the new one must not find it.
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    copy(journal, path)
    return aside


def _is_readable(path: str, *, force: bool) -> bool:
    """Raises unless it may be replaced: with attachments, or with what nobody can read, only by force."""
    try:
        connection, _ = as_it_is(path)
        with closing(connection):
            attachments = counts_of(connection).attachments
    except (JournalError, sqlite3.DatabaseError) as cause:
        if force:
            return False
        raise CommandFailed(
            f"{path} cannot be read: {cause}; nothing was changed",
            "look at it with `netloom journal verify`, or put it aside with --force",
            code="journal-damaged",
        ) from None
    if attachments and not force:
        raise CommandFailed(
            f"{path} has {attachments} attachments; nothing was changed",
            "delete their containers first, or give --force: containers that run keep their networks, and "
            "the next agent does not know them",
            code="journal-not-empty",
        )
    return True


def _move(path: str, to: str) -> None:
    """One that SQLite cannot copy, with its log, as it is."""
    for ending in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            os.rename(path + ending, to + ending)


def _free(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.replaced-{number}"):
        number += 1
    return f"{path}.replaced-{number}"
