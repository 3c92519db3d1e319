"""Restore the journal from a copy of `netloom journal backup`, or one that an upgrade kept.

The command reads the whole copy first, and then replaces the journal atomically. No agent may run. The old
journal, damaged or not, is kept next to the new one. --force is needed if the old journal has attachments
that the copy lacks, or if the copy is older than another that netloom keeps next to the journal
(journal.db.rescued-1, journal.db.backup-4). The command counts links of netloom that are not in the copy;
`netloom status` lists them when an agent runs.

examples:
  netloom down; netloom journal restore /root/journal.db; netloom up
  netloom journal restore /var/lib/netloom/journal.db.backup-4
"""

from __future__ import annotations

import argparse

from ....api.paths import journal_of
from ....api.text import printable_line
from ....ops.advice import require_root
from ....ops.journals.restore import Restored, restore
from ...arguments import absolute, add_json, add_state_dir
from ...terminal.output import complain, require_output, say
from ...terminal.tables import print_json

OUTPUT = Restored


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=absolute, help="copy to restore")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a journal with attachments that the copy lacks; restore a copy that is older than "
        "another next to the journal",
    )
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("writing the journal")
    done = restore(journal_of(args.state_dir), args.file, force=args.force)
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
                f"warning: {done.path} was missing, but its log (WAL) existed, which is {replaced} now. "
                f"If {file} is that journal, moved away, its last changes are in this log: run "
                f"`cp {file} {aside}`, then `netloom journal restore {aside}`"
            )
        )
    elif replaced:
        say(f"the old journal was kept as {printable_line(replaced)}")
    count = len(done.unknown_links)
    if count:
        are = "link of netloom on this host is" if count == 1 else "links of netloom on this host are"
        complain(
            f"warning: {count} {are} not in this journal (orphaned); run `netloom up`, then `netloom status` "
            f"lists {'it' if count == 1 else 'them'} with the next step"
        )
