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
import sqlite3
from contextlib import closing
from typing import Annotated

from msgspec import Meta, Struct

from ...api.findings import Finding
from ...cni.files import read_document
from ...journal.document import InvalidDocument, built, decode
from ..arguments import add_json
from ..failure import CommandFailed, UsageError
from ..finding_view import finding_lines
from ..journal import journal_path
from ..output import printable_line, require_output, say
from ..place import absolute, add_state_dir
from ..privileges import require_root
from ..views import print_json
from .counted import Counts, counts_of
from .putting import Require, put
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
            replaced=put(journal, path, _require_empty(path, force=args.force), over_damage=args.force),
            findings=[finding_of(fault, args.file) for fault in faults],
        )
    if not args.json:
        for finding in done.findings:
            say(*finding_lines(finding))
        say(f"{printable_line(path)}: {done.counts.sentence()}")
        if done.replaced:
            say(f"the journal that was there is {printable_line(done.replaced)}")
    else:
        print_json(done)
    return 0


def _read(path: str) -> bytes:
    try:
        return read_document(path, limit=_LARGEST)
    except OSError as cause:
        raise UsageError(f"cannot read {path}: {cause.strerror}", "give the path of a file") from None


def _require_empty(path: str, *, force: bool) -> Require:
    """With attachments, it is replaced by force only."""

    def require(journal: sqlite3.Connection) -> None:
        attachments = counts_of(journal).attachments
        if attachments and not force:
            raise CommandFailed(
                f"{path} has {attachments} attachments; nothing was changed",
                "delete their containers first, or give --force: containers that run keep their networks, "
                "and the next agent does not know them",
                code="journal-not-empty",
            )

    return require
