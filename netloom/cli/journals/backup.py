"""Copy the journal to a file, as it is at this moment, beside a running agent or without one.

The copy is whole and on disk when the command ends, and readable for its owner alone. To put it back: stop
the agent, copy it to journal.db in the state directory, remove journal.db-wal if that is there, and start.

examples:
  netloom journal backup /root/journal.db
  netloom journal backup --force /root/journal.db
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from contextlib import closing
from typing import Annotated

from msgspec import Meta, Struct

from ...journal.backup import copy
from ...journal.file import as_it_is
from ..arguments import add_json
from ..failure import CommandFailed, UsageError
from ..journal import explained, journal_path
from ..output import printable, require_output, say
from ..place import absolute, add_state_dir
from ..views import for_a_person, print_json
from .counted import Counts, counts_of


class Copied(Struct, frozen=True, kw_only=True):
    """A copy of the journal."""

    path: Annotated[str, Meta(description="the file that was written")]
    schema: Annotated[int, Meta(description="of its tables")]
    bytes: Annotated[int, Meta(description="its size")]
    counts: Annotated[Counts, Meta(description="how much is in it")]


OUTPUT = Copied


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="where to")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    path = journal_path(args.state_dir)
    require_place(args.file, path, force=args.force)
    with explained():
        connection, schema = as_it_is(path)
    with closing(connection):
        connection.execute("BEGIN")
        try:
            copy(connection, args.file)
            counts = counts_of(connection)
        except (OSError, sqlite3.DatabaseError) as cause:
            raise unwritable(args.file, cause) from None
    done = Copied(path=args.file, schema=schema, bytes=os.stat(args.file).st_size, counts=counts)
    if for_a_person(args.json):
        say(f"{printable(args.file)}: schema {schema}, {counts.sentence()}")
    else:
        print_json(done)
    return 0


def require_place(path: str, journal: str, *, force: bool) -> None:
    if os.path.realpath(path).startswith(os.path.realpath(journal)) and _is_of(path, journal):
        raise UsageError(f"{path} is the journal itself", "give another FILE")
    if os.path.lexists(path) and not force:
        raise CommandFailed(
            f"{path} is there already; nothing was done", "give another FILE, or --force", code="file-exists"
        )


def _is_of(path: str, journal: str) -> bool:
    """What the agent writes: the file, its log and its lock."""
    ending = os.path.realpath(path)[len(os.path.realpath(journal)) :]
    return ending in ("", "-wal", "-shm", ".lock")


def unwritable(path: str, cause: OSError | sqlite3.DatabaseError) -> CommandFailed:
    why = cause.strerror if isinstance(cause, OSError) else cause
    return CommandFailed(
        f"cannot write {path}: {why}",
        "look at the path: its permissions, what is in its place, and space on its disk",
        code="file-unwritable",
    )
