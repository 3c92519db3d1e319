"""Write the whole journal as one JSON document, to standard output or to a file.

Use it for programs, for other machines, and to go back to an earlier version that cannot read the file
itself. `netloom journal import` creates a journal with identical rows from the document. The document
contains names of containers and pods, and addresses, but no secrets of configurations.

examples:
  netloom journal export >journal.json
  netloom journal export --no-operations journal.json
"""

from __future__ import annotations

import argparse

from ....api.paths import journal_of
from ....api.text import printable_line
from ....journal.document import Document
from ....ops.journals.backup import export, export_to
from ...arguments import absolute, add_state_dir
from ...terminal.output import require_output, say, write_bytes

OUTPUT = Document


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=absolute,
        help="path of the document (default: standard output)",
    )
    parser.add_argument("--no-operations", action="store_true", help="omit the log of operations")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_state_dir(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    journal, operations = journal_of(args.state_dir), not args.no_operations
    if args.file is None:
        write_bytes(export(journal, operations=operations))
        return 0
    size = export_to(journal, args.file, operations=operations, force=args.force)
    say(f"{printable_line(args.file)}: {size} bytes")
    return 0
