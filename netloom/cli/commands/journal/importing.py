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

from ....api.paths import journal_of
from ....api.text import printable_line
from ....ops.advice import require_root
from ....ops.journals.restore import Imported, import_document
from ...arguments import absolute, add_json, add_state_dir
from ...terminal.output import require_output, say
from ...terminal.tables import finding_lines, print_json

OUTPUT = Imported


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="what was exported")
    parser.add_argument("--force", action="store_true", help="also over a journal that has attachments")
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("writing the journal")
    done = import_document(journal_of(args.state_dir), args.file, force=args.force)
    if not args.json:
        for finding in done.findings:
            say(*finding_lines(finding))
        say(f"{printable_line(done.path)}: {done.counts.sentence()}")
        if done.replaced:
            say(f"the journal that was there is {printable_line(done.replaced)}")
    else:
        print_json(done)
    return 0
