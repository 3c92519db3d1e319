"""Remove what is left over: attachments of containers that are gone, what was not finished, DELs that wait.

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
import time
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ..kernel import Namespace
from ..ops.node.leaks import Collected, Leftover, leftovers
from ..ops.node.presence import boot_id
from .agent_process import Place, holder
from .arguments import add_json
from .asking import ask
from .cni.target import add_cache_dir
from .gc_results import is_there, results_of
from .journal import ledger
from .output import say
from .place import add_place, intents_dir
from .privileges import require_root
from .status import FAILED
from .views import print_json, table

# What an agent is just doing looks like a leftover, and is over by then; seldom, it is doing it again.
_MOMENTS = (0.3, 0.5)
_PATIENCE = 120.0


class Garbage(Struct, frozen=True, rename={"dry_run": "dryRun"}):
    """What is left over on this node."""

    dry_run: Annotated[bool, Meta(description="whether it was only looked for")]
    removed: Annotated[list[Leftover], Meta(description="what went; with --dry-run: what would go")]
    kept: Annotated[list[Leftover], Meta(description="what may be in use, and stays")]
    left: Annotated[list[Leftover], Meta(description="what should have gone, and did not")]
    results: Annotated[list[str], Meta(description="files in the CNI cache that go with the attachments")]


OUTPUT = Garbage


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="list what would go, and why; change nothing")
    add_place(parser)
    add_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("looking at namespaces")
    found = _looked(args) if args.dry_run else _collected(args)
    if not args.json:
        _show(found)
    else:
        print_json(found)
    return FAILED if found.left else 0


def _looked(args: argparse.Namespace) -> Garbage:
    found = _leftovers(args)
    is_served = holder(Place(args.state_dir, args.socket)) is not None
    for moment in _MOMENTS if found and is_served else ():
        time.sleep(moment)
        again = _leftovers(args)
        found = [it for it in found if it in again]
    going, kept = _parted(found)
    return Garbage(True, going, kept, [], [cached.path for cached in results_of(args.cache_dir, going)])


def _leftovers(args: argparse.Namespace) -> list[Leftover]:
    with ledger(args) as journal, Namespace.own() as host:
        if journal is None:
            return []
        return leftovers(journal, host, intents_dir(args), boot_id())


def _collected(args: argparse.Namespace) -> Garbage:
    answer = msgspec.json.decode(ask(args, "collect", timeout=_PATIENCE), type=Collected)
    left, kept = _parted(answer.left)
    with ledger(args) as journal:
        gone = [it for it in answer.removed if journal is None or not is_there(journal, it)]
    results = [it.path for it in results_of(args.cache_dir, gone) if it.remove()]
    return Garbage(False, answer.removed, kept, left, results)


def _parted(found: Iterable[Leftover]) -> tuple[list[Leftover], list[Leftover]]:
    """What goes, and what stays."""
    listed = list(found)
    return [it for it in listed if not it.kept], [it for it in listed if it.kept]


def _show(it: Garbage) -> None:
    if not (it.removed or it.kept or it.left):
        say("nothing is left over")
        return
    for heading, listed in (
        ("would go:" if it.dry_run else "removed:", it.removed),
        ("still there, and should not be:", it.left),
        ("kept:", it.kept),
    ):
        if listed:
            rows: list[tuple[str, ...]] = [(one.kind, one.subject, one.reason, one.kept) for one in listed]
            if listed is it.removed:
                rows += [("result", path, "its attachment goes", "") for path in it.results]
            say(heading, *table(rows, margin=2))
    if it.left:
        say("", "next: look at the agent's log, and try again")
