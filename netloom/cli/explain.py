"""Explain a container, a pod, an interface, an address or an error: what was asked, what came of it, what to
do next.

NAME is a container's ID or its beginning, a pod (NAMESPACE/POD, or POD), a network namespace (its path or
name), an attachment (NETWORK/CONTAINER/INTERFACE), a link of the host (loom…), an IP address, or the code of
an error or a finding. It is answered from the journal's log of operations and from the kernel; an agent need
not run. The exit status is 0 if all is well, 1 if something is wrong: an operation failed, an attachment is
not as it should be, a firewall drops its traffic, or nothing of that name was ever seen; 2 if the name may
mean several.

examples:
  netloom explain shop/api-0
  netloom explain 3f2a9c
  netloom explain 10.78.0.7 --at 02:13
  netloom explain 105
  netloom explain pool-exhausted --json
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .arguments import add_json
from .explaining.explanation import Explanation, Page
from .failure import UsageError, warn
from .moments import moment, shown
from .output import say
from .place import add_conf_dir, add_place, intents_dir
from .settling import settle, unwritten
from .status import FAILED
from .views import print_json

if TYPE_CHECKING:
    from ..journal import Operation
    from ..ops.node.networks import NodeNetwork

OUTPUT = Explanation

_LIMIT = 50
# Many firewalls keep containers from the host on purpose: of these, only errors count.
_FOREIGN_DROP = "foreign-drop"
# A clock may be a little behind another.
_LEEWAY = 1.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to explain")
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=moment,
        help="of an address: who had it then (02:13, 10m ago, @1700000000.5, …)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_count,
        default=_LIMIT,
        help=f"show so many operations, the latest (default {_LIMIT})",
    )
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= len(text) <= 6):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of operations")
    return int(text)


def run(args: argparse.Namespace) -> int:
    if not args.name.strip():
        raise UsageError("NAME is empty", "give a container, a pod, an address or a code")
    found = _explained(args, args.name.strip())
    if not args.json:
        from .explaining.shown import lines_of

        say(*lines_of(found))
    else:
        print_json(found)
    return FAILED if is_wrong(found) else 0


def is_wrong(it: Explanation) -> bool:
    unanswered = it.address is not None and it.address.at is not None and not it.address.at.known
    return unanswered or any(one.code != _FOREIGN_DROP or one.severity == "error" for one in it.findings)


def _explained(args: argparse.Namespace, word: str) -> Explanation:
    from ..api.catalogue import entry

    page = entry(word.lower())
    if page is not None:
        return Explanation(
            asked=word,
            kind="code",
            name=page.code,
            summary=page.title,
            page=Page(page.code, page.area, page.title, page.meaning, page.remedy, page.page),
        )
    if args.at is not None and args.at > time.time() + _LEEWAY:
        raise UsageError(f"--at {shown(args.at)} is in the future", "give a time that has been")
    behind = settle(args.socket)
    # What the disk does not take, the agent knows.
    found = _of_something(args, word, unwritten(args.socket) if behind else [])
    return replace(found, behind=behind) if behind else found


def _of_something(args: argparse.Namespace, word: str, unwritten: list[Operation]) -> Explanation:
    """What is not needed for the answer is not loaded: somebody waits for it."""
    from ..journal import in_memory
    from ..kernel import Namespace
    from .journal import ledger
    from .queued import queued
    from .subjects import packed_ip, subject_of

    ip = packed_ip(word)
    if ip is None and args.at is not None:
        raise UsageError(
            f"--at is for an address, and {word!r} is none", "leave --at out, or give an address"
        )
    with ledger(args) as written, Namespace.own() as host:
        journal = written
        if written is not None and unwritten:
            journal = in_memory(written.connection)
            journal.record(unwritten)
        dels = queued(intents_dir(args))
        if ip is not None:
            from ..journal import empty
            from .explaining import address

            return address.story_of(word, ip, args.at, journal or empty(), host, _networks(args), dels)
        subject = None if journal is None else subject_of(args, journal, word)
        if subject is None or journal is None:
            from .explaining import absence, orphaned

            names = [it.name for it in _networks(args)]
            orphan = orphaned.explain_orphan(word, journal, host, names)
            return orphan or absence.explain_absence(args, word, journal)
        from .explaining import story

        return story.story_of(word, subject, journal, host, dels, args.limit)


def _networks(args: argparse.Namespace) -> list[NodeNetwork]:
    """Whatever can be read: who has an address is known without them."""
    from ..cni import CNIError
    from ..ops.node.networks import node_networks

    try:
        return node_networks(args.conf_dir)
    except CNIError as error:
        warn(args, f"networks could not be read: {error}")
        return []
