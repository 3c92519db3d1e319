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

from ....api.paths import journal_of
from ....api.text import printable_line
from ....ops.advice import require_root
from ....ops.journals.restore import Restored, restore
from ...arguments import absolute, add_json, add_state_dir
from ...terminal.output import complain, require_output, say
from ...terminal.tables import print_json

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
