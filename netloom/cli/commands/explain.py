"""Explain a container, a pod, an interface, an address or an error code: its operations, their outcome, and
the next step.

NAME is a container's ID or a prefix of it, a pod (NAMESPACE/POD, or POD), a network namespace (path or name),
an attachment (NETWORK/CONTAINER/INTERFACE), a link of the host (loom…), an IP address, or the code of an
error or a finding. The command reads the journal's log of operations and the kernel, and needs no agent. The
exit status is 0 if nothing is wrong; 1 if an operation failed, an attachment differs from its plan, a
firewall drops its traffic, or the name is unknown; 2 if the name is ambiguous.

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
        help="for an address: show its holder at this time (02:13, 10m ago, @1700000000.5, …)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_count,
        default=_LIMIT,
        help=f"number of operations to show, the latest (default: {_LIMIT})",
    )
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= len(text) <= 6):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of operations")
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
