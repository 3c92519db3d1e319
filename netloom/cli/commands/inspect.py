"""Show an attachment in detail: addresses, ports, limits, counters, and its objects in the kernel.

NAME is an attachment (NETWORK/CONTAINER/INTERFACE), a link of the host (loom…) or an address; or a
container's ID or a prefix of it, a pod or a network namespace, for all of its interfaces. The command needs
no agent. The exit status is 1 if the kernel differs from the plan, or NAME has no attachment.

examples:
  netloom inspect 3f2a9c
  netloom inspect shop/api-0
  netloom inspect netloom/3f2a9c/eth0 --json
"""

from __future__ import annotations

import argparse

from ...ops.inspect.documents import Inspected
from ...ops.inspect.inspection import inspect
from ..arguments import add_json, add_place, place_of
from ..exit_status import FAILED
from ..terminal.output import say
from ..terminal.tables import print_json

OUTPUT = list[Inspected]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to inspect")
    add_place(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = inspect(place_of(args), args.name)
    if args.json:
        print_json(found)
    else:
        from ..terminal.reports import lines_of_inspection

        for number, it in enumerate(found):
            say(*([""] if number else []), *lines_of_inspection(it))
    return FAILED if any(it.findings for it in found) else 0
