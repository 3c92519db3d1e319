"""Create the journal from a document of `netloom journal export`, if there is no journal or an empty one.

The command validates the whole document first, and then replaces the journal atomically. No agent may run. A
journal with attachments is replaced only with --force. The old journal is kept next to the new one. The next
agent releases attachments of another boot or another machine; their addresses rest before they are reused.

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
    parser.add_argument("file", metavar="FILE", type=absolute, help="exported document")
    parser.add_argument("--force", action="store_true", help="replace a journal that has attachments")
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
            say(f"the old journal was kept as {printable_line(done.replaced)}")
    else:
        print_json(done)
    return 0
