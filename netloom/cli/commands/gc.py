"""Remove what leaked: attachments of containers that are gone, unfinished work, queued DELs.

An attachment is valid until it is proved dead: its namespace is gone, and so is the host's end of its pair.
What may still be in use is named, and kept. With an attachment goes its result in the CNI cache, if no other
plugin has a part in it; other results are never touched. --dry-run only lists, and needs no agent. The exit
status is 1 if something that should have gone is still there.

examples:
  netloom gc --dry-run
  netloom gc
  netloom gc --dry-run --json
"""

from __future__ import annotations

import argparse

from ...ops.advice import require_root
from ...ops.node.garbage import Garbage, collected, listed
from ..arguments import add_json, add_place, place_of
from ..exit_status import FAILED
from ..terminal.output import say
from ..terminal.tables import print_json, table
from .cni.target import add_cache_dir

OUTPUT = Garbage


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="list what would go, and why; change nothing")
    add_place(parser)
    add_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("looking at namespaces")
    found = (listed if args.dry_run else collected)(place_of(args), args.cache_dir)
    if args.json:
        print_json(found)
    else:
        _show(found)
    return FAILED if found.left else 0


def _show(it: Garbage) -> None:
    if not (it.removed or it.kept or it.left):
        say("nothing is left over")
        return
    for heading, some in (
        ("would go:" if it.dry_run else "removed:", it.removed),
        ("still there, and should not be:", it.left),
        ("kept:", it.kept),
    ):
        if some:
            rows: list[tuple[str, ...]] = [(one.kind, one.subject, one.reason, one.kept) for one in some]
            if some is it.removed:
                rows += [("result", path, "its attachment goes", "") for path in it.results]
            say(heading, *table(rows, margin=2))
    if it.left:
        say("", "next: look at the agent's log, and try again")
