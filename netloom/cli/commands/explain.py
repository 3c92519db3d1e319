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

from ...ops.explain.explanation import Explanation
from ...ops.explain.lookup import explain, is_wrong
from ..arguments import add_conf_dir, add_json, add_place, place_of, point_in_time
from ..exit_status import FAILED
from ..failure import warn
from ..terminal.output import say
from ..terminal.tables import print_json

OUTPUT = Explanation

_LIMIT = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to explain")
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=point_in_time,
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
    found = explain(
        place_of(args), args.name, at=args.at, limit=args.limit, warn=lambda text: warn(args, text)
    )
    if not args.json:
        from ..terminal.reports import lines_of_explanation

        say(*lines_of_explanation(found))
    else:
        print_json(found)
    return FAILED if is_wrong(found) else 0
