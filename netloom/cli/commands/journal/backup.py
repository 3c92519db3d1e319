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

from ....api.paths import journal_of
from ....api.text import printable_line
from ....ops.journals.backup import Copied, back_up
from ...arguments import absolute, add_json, add_state_dir
from ...terminal.output import require_output, say
from ...terminal.tables import print_json

OUTPUT = Copied


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="where to")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
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
