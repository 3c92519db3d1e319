"""Copy the journal to a file, as it is at this moment, beside a running agent or without one.

The copy is whole and on disk when the command ends, and readable for its owner alone. To put it back:
`netloom down; netloom journal restore FILE; netloom up`.
Of a journal that is damaged no copy is made, and what is at FILE stays: `netloom journal verify` tells more.

examples:
  netloom journal backup /root/journal.db
  netloom journal backup --force /root/journal.db
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from ...journal.backup import copy
from ...journal.causes import reason
from ...journal.errors import Damaged, Unreadable
from ...journal.file import as_it_is
from ...journal.file import explained as told
from ...journal.kinds import other_than_file
from ...journal.verification import require_whole
from ..arguments import add_json
from ..failure import CommandFailed, UsageError
from ..journal import code_of, explained, journal_path
from ..output import printable_line, require_output, say
from ..place import absolute, add_state_dir
from ..views import print_json
from .counted import Counts, counts_of


class Copied(Struct, frozen=True, kw_only=True):
    """A copy of the journal."""

    path: Annotated[str, Meta(description="the file that was written")]
    schema: Annotated[int, Meta(description="of its tables")]
    bytes: Annotated[int, Meta(description="its size")]
    counts: Annotated[Counts, Meta(description="how much is in it")]


OUTPUT = Copied

_LOOK = (
    "`netloom journal verify` tells what is wrong with the journal; to keep it as it is, copy it with `cp`, "
    "together with journal.db-wal if that is there"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="where to")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    path = journal_path(args.state_dir)
    require_place(args.file, path, force=args.force)
    with _of_journal(path):
        connection, schema = as_it_is(path)
        with closing(connection):
            connection.execute("BEGIN")
            # One that is damaged is told before it takes the place of a copy that is not.
            require_whole(connection, path)
            counts = counts_of(connection)
            try:
                copy(connection, args.file)
            except OSError as cause:
                raise unwritable(args.file, cause) from None
    done = Copied(path=args.file, schema=schema, bytes=os.stat(args.file).st_size, counts=counts)
    if not args.json:
        say(f"{printable_line(args.file)}: schema {schema}, {counts.sentence()}")
    else:
        print_json(done)
    return 0


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
            raise CommandFailed(f"{error}; nothing was written", _LOOK, code=code_of(error)) from None


def require_place(path: str, journal: str, *, force: bool) -> None:
    if os.path.realpath(path).startswith(os.path.realpath(journal)) and _is_of(path, journal):
        raise UsageError(f"{path} is the journal itself", "give another FILE")
    what = _what_is_at(path)
    if what is not None:
        # A device, say: with a file in its place, others would not find it any more.
        raise CommandFailed(
            f"{path} is {what}, which is never replaced; nothing was done",
            "give another FILE",
            code="file-exists",
        )
    if os.path.lexists(path) and not force:
        raise CommandFailed(
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


def unwritable(path: str, cause: OSError | sqlite3.DatabaseError) -> CommandFailed:
    why = cause.strerror if isinstance(cause, OSError) else reason(cause)
    return CommandFailed(
        f"cannot write {path}: {why}",
        "look at the path: its permissions, what is in its place, and space on its disk",
        code="file-unwritable",
    )
