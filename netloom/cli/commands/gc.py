"""Delete leaks: attachments of removed containers, unfinished operations, queued DELs.

An attachment is a leak only if its namespace and the host's end of its pair do not exist any more. The
command lists and keeps what may still be in use. With an attachment, it deletes the result in the CNI cache,
unless the result is also from another plugin; it does not touch other results. --dry-run only lists leaks,
and needs no agent. The exit status is 1 if a leak could not be deleted.

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
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would be deleted, and why; change nothing"
    )
    add_place(parser)
    add_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("reading network namespaces")
    found = (listed if args.dry_run else collected)(place_of(args), args.cache_dir)
    if args.json:
        print_json(found)
    else:
        _show(found)
    return FAILED if found.left else 0


def _show(it: Garbage) -> None:
    if not (it.removed or it.kept or it.left):
        say("no leaks found")
        return
    for heading, some in (
        ("would be deleted:" if it.dry_run else "deleted:", it.removed),
        ("could not be deleted:", it.left),
        ("kept:", it.kept),
    ):
        if some:
            rows: list[tuple[str, ...]] = [(one.kind, one.subject, one.reason, one.kept) for one in some]
            if some is it.removed:
                rows += [("result", path, "its attachment is deleted", "") for path in it.results]
            say(heading, *table(rows, margin=2))
    if it.left:
        say("", "next: see the agent's log, then run `netloom gc` again")
