"""Verify a journal: its file, its tables, and that every row can be read.

The command only reads, and works whether an agent runs or not. The exit status is 1 if it finds an error.
`netloom check` and `netloom doctor` compare the journal with the kernel.

examples:
  netloom journal verify
  netloom journal verify /var/lib/netloom/journal.db.backup-3
"""

from __future__ import annotations

import argparse
from itertools import groupby

from ....api.paths import journal_of
from ....api.text import printable_line
from ....ops.journals.backup import Verified, verify
from ...arguments import absolute, add_json, add_state_dir
from ...exit_status import FAILED
from ...terminal.output import say
from ...terminal.tables import lines_of_alike, print_json

OUTPUT = Verified


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=absolute,
        help="journal to verify (default: the node's journal)",
    )
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    own = journal_of(args.state_dir)
    found = verify(args.file or own, is_copy=args.file not in (None, own))
    if not args.json:
        _show(found)
    else:
        print_json(found)
    return FAILED if found.findings else 0


def _show(found: Verified) -> None:
    for _, alike in groupby(found.findings, key=lambda it: (it.code, it.next)):
        say(*lines_of_alike(list(alike)))
    name = printable_line(found.path)
    if found.counts is not None:
        of_what = found.counts.sentence()
        say(f"{name} {'can be read' if found.findings else 'is sound'}: schema {found.schema}, {of_what}")
