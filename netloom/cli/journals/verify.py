"""Look whether a journal is sound: its file, its tables, and that every row in them can be read.

Reads only, beside a running agent or without one. The exit status is 1 if something was found. That journal
and kernel agree is looked at by `netloom check` and `netloom doctor`.

examples:
  netloom journal verify
  netloom journal verify /var/lib/netloom/journal.db.backup-3
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from typing import Annotated

from msgspec import Meta, Struct

from ...api.findings import Finding, any_error
from ...journal.errors import Damaged, Missing
from ...journal.file import as_it_is
from ...journal.verification import Fault, faults
from ..arguments import add_json
from ..failure import CommandFailed
from ..finding_view import lines_of_alike
from ..journal import code_of, explained, journal_path
from ..output import printable_line, say
from ..place import absolute, add_state_dir
from ..status import FAILED
from ..views import print_json
from .counted import Counts, counts_of

_RESTORE = (
    "`netloom down`, put a copy back with `netloom journal restore FILE` or move the file away, `netloom up`"
)
_TAKE_ANOTHER = "do not put this copy back: take another, or make one with `netloom journal backup`"
_NOT_THERE = "give the path of a copy that is there; without FILE, the node's own journal is looked at"
# For each kind of fault: its code, and what to do.
_SAID = {
    "file": ("journal-damaged", _RESTORE),
    "tables": ("journal-tables", _RESTORE),
    "reference": ("journal-dangling", _RESTORE),
    "addressless": ("attachment-addressless", "delete its container, and make it anew"),
    "plan": ("plan-unreadable", "delete its container, and make it anew"),
    "result": ("result-unreadable", "delete its container, and make it anew"),
    "operation": ("operation-unreadable", "nothing: `netloom explain` shows it without its phases"),
}
# An agent works on with these.
_BEARABLE = frozenset({"plan", "result", "operation"})


class Verified(Struct, frozen=True, kw_only=True):
    """A journal, and what is wrong with it."""

    path: Annotated[str, Meta(description="the file")]
    schema: Annotated[int, Meta(description="of its tables")]
    counts: Annotated[Counts | None, Meta(description="how much is in it; null if it cannot be counted")]
    findings: Annotated[list[Finding], Meta(description="what is wrong; empty if it is sound")]


OUTPUT = Verified


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", type=absolute, help="default: the node's journal")
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    own = journal_path(args.state_dir)
    found = verified(args.file or own, is_copy=args.file not in (None, own))
    if not args.json:
        _show(found)
    else:
        print_json(found)
    return FAILED if found.findings else 0


def verified(path: str, *, is_copy: bool = False) -> Verified:
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
    except (Damaged, Missing) as error:
        if not is_copy:
            raise
        advice = _NOT_THERE if isinstance(error, Missing) else _TAKE_ANOTHER
        raise CommandFailed(str(error), advice, code=code_of(error)) from None


def finding_of(fault: Fault, path: str, *, is_copy: bool = False) -> Finding:
    code, advice = _SAID[fault.kind]
    if is_copy and advice == _RESTORE:
        advice = _TAKE_ANOTHER
    subject = fault.subject or path
    return Finding(
        code=code,
        text=f"{subject}: {fault.text}",
        next=advice,
        subject=subject,
        severity="warning" if fault.kind in _BEARABLE else "error",
    )


def _show(found: Verified) -> None:
    for _, alike in groupby(found.findings, key=lambda it: (it.code, it.next)):
        say(*lines_of_alike(list(alike)))
    name = printable_line(found.path)
    if found.counts is not None:
        of_what = found.counts.sentence()
        say(f"{name} {'can be read' if found.findings else 'is sound'}: schema {found.schema}, {of_what}")
