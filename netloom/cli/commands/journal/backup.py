"""Copy the journal to a file, consistently, whether an agent runs or not.

The copy is complete and synced to disk when the command ends, and only its owner can read it. To restore it:
`netloom down; netloom journal restore FILE; netloom up`. If the journal is damaged, the command makes no copy
and leaves FILE unchanged; `netloom journal verify` lists the damage.

examples:
  netloom journal backup /root/journal.db
  netloom journal backup --force /root/journal.db
"""

from __future__ import annotations

import argparse

from ....api.paths import journal_of
from ....api.text import printable_line
from ....ops.journals.backup import Copied, back_up
from ...arguments import absolute, add_json, add_state_dir
from ...terminal.output import require_output, say
from ...terminal.tables import print_json

OUTPUT = Copied


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="path of the copy")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    done = back_up(journal_of(args.state_dir), args.file, force=args.force)
    if not args.json:
        say(f"{printable_line(done.path)}: schema {done.schema}, {done.counts.sentence()}")
    else:
        print_json(done)
    return 0
