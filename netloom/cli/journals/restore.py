"""Put a copy of the journal back that `netloom journal backup` made, or that an upgrade has kept.

The copy is read from its first page to its last before anything is changed, and then it appears in one step.
An agent must not run. The journal that was there is kept beside it, damaged or not. If it has attachments
that the copy does not know, it is replaced with --force only. So is it by a copy that is older than another
that netloom has kept beside the journal (journal.db.rescued-1, journal.db.backup-4). Links of netloom that it
does not know are counted: `netloom status` names them once an agent runs.

examples:
  netloom down; netloom journal restore /root/journal.db; netloom up
  netloom journal restore /var/lib/netloom/journal.db.backup-4
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from ...cni import AttachmentKey
from ...journal import Damaged, JournalError, Ledger, lost
from ...journal.file import as_it_is
from ...journal.file import explained as told
from ...journal.verification import require_whole
from ...kernel import KernelError, Namespace
from ...ops.node.orphans import orphans_at
from ..arguments import add_json
from ..failure import CommandFailed, UsageError
from ..journal import advice_on, code_of, journal_path
from ..moments import shown
from ..output import complain, printable_line, require_output, say
from ..place import absolute, add_state_dir
from ..privileges import require_root
from ..views import print_json
from .counted import Counts, counts_of
from .putting import put, require_no_agent

_NAMED = 3


class Restored(Struct, frozen=True, kw_only=True):
    """The journal, as the copy has it."""

    path: Annotated[str, Meta(description="the journal")]
    schema: Annotated[int, Meta(description="of its tables; the next agent brings them up to its own")]
    counts: Annotated[Counts, Meta(description="how much is in it")]
    replaced: Annotated[
        str | None,
        Meta(description="where the journal is that was there before, or its log (-wal) if that was alone"),
    ]
    unknown_links: Annotated[
        list[str], Meta(description="links of netloom on this host that no attachment in it has")
    ]


OUTPUT = Restored


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="the copy")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also over a journal with attachments that the copy lacks, and an older copy than another that "
        "netloom has kept beside the journal",
    )
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("writing the journal")
    path = journal_path(args.state_dir)
    if os.path.exists(path) and os.path.exists(args.file) and os.path.samefile(path, args.file):
        raise UsageError(f"{args.file} is the journal itself", "give a copy of it")
    require_no_agent(path)
    with _of_copy(args.file, path):
        connection, schema = as_it_is(args.file, is_copy=True)
        with closing(connection):
            connection.execute("BEGIN")
            if schema == 0:
                raise Damaged(f"{args.file} is no journal: there are no tables in it")
            require_whole(connection, args.file)
            counts, known = counts_of(connection), set(_keys(connection))
            if not args.force:
                _require_newest(path, args.file, lost.latest_of(connection))

            def require(journal: sqlite3.Connection) -> None:
                if not args.force:
                    _require_known([key for key in _keys(journal) if key not in known], path, args.file)

            replaced = put(connection, path, require, over_damage=True)
            links = _unknown_links(connection)
    done = Restored(path=path, schema=schema, counts=counts, replaced=replaced, unknown_links=links)
    if not args.json:
        _show(done, args.file)
    else:
        print_json(done)
    return 0


def _show(done: Restored, file: str) -> None:
    say(f"{printable_line(done.path)}: {done.counts.sentence()}")
    replaced = done.replaced or ""
    if replaced.endswith("-wal"):
        aside = replaced.removesuffix("-wal")
        complain(
            printable_line(
                f"warning: {done.path} was gone, and its log alone was there, which is {replaced} now: if "
                f"{file} is that journal, moved away, its last changes are in this log: `cp {file} {aside}`, "
                f"and `netloom journal restore {aside}`"
            )
        )
    elif replaced:
        say(f"the journal that was there is {printable_line(replaced)}")
    count = len(done.unknown_links)
    if count:
        are = "link of netloom on this host is" if count == 1 else "links of netloom on this host are"
        complain(
            f"warning: {count} {are} not in it (orphaned); after `netloom up`, `netloom status` names "
            f"{'it' if count == 1 else 'them'}, and what to do"
        )


def _unknown_links(journal: sqlite3.Connection) -> list[str]:
    """None are told of where the kernel cannot be asked: the journal is in its place all the same."""
    try:
        with Namespace.own() as host:
            return sorted(orphans_at(host, lambda question: question(Ledger(journal))))
    except (KernelError, sqlite3.DatabaseError):
        return []


@contextmanager
def _of_copy(file: str, path: str) -> Iterator[None]:
    """What keeps the copy from being read is no fault of the journal."""
    try:
        try:
            yield
        except sqlite3.DatabaseError as cause:
            raise told(file, cause, reading=True) from None
    except JournalError as error:
        advice = advice_on(error) if code_of(error) == "journal-newer" else _whole(path)
        raise CommandFailed(f"{error}; nothing was changed", advice, code=code_of(error)) from None


def _whole(path: str) -> str:
    newest = lost.newest(path)
    return f"`netloom journal restore {newest}`, the newest copy" if newest else "give a copy that is whole"


def _keys(connection: sqlite3.Connection) -> list[AttachmentKey]:
    return [it.key for it in Ledger(connection).places()]


def _require_newest(path: str, file: str, latest: float) -> None:
    newest = next(iter(lost.copies(path)[::-1]), None)
    if newest is None or newest.latest <= latest or os.path.samefile(newest.path, file):
        return
    raise CommandFailed(
        f"{newest.path}, which netloom has kept, is newer: it ends at {shown(newest.latest)}, and {file} at "
        f"{shown(latest)}; nothing was changed",
        f"`netloom journal restore {newest.path}`, or give --force",
        code="journal-older",
    )


def _require_known(unknown: list[AttachmentKey], path: str, file: str) -> None:
    if not unknown:
        return
    named = ", ".join(map(str, unknown[:_NAMED])) + (", …" if len(unknown) > _NAMED else "")
    count = "an attachment" if len(unknown) == 1 else f"{len(unknown)} attachments"
    raise CommandFailed(
        f"{path} has {count} that {file} does not know: {named}; nothing was changed",
        "delete their containers first, or give --force: containers that run keep their networks, and "
        "the next agent does not know them",
        code="journal-not-empty",
    )
