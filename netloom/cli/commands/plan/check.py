"""Compare a plan with the kernel. Prints the differences; the exit status is 1 if there are any.

examples:
  netloom plan check node.json
  netloom plan check pod.json --netns web --json
"""

from __future__ import annotations

import argparse

from ....api.text import printable
from ....kernel import Difference, check
from ...exit_status import FAILED
from ...terminal.output import say
from ...terminal.tables import print_json
from . import source

OUTPUT = list[Difference]


def arguments(parser: argparse.ArgumentParser) -> None:
    source.arguments(parser)


def run(args: argparse.Namespace) -> int:
    plan = source.plan(args)
    source.require_namespace(plan, args)
    with source.scope(args) as scope:
        differences = check(plan, scope)
    if not args.json:
        if differences:
            say(*(printable(str(difference)) for difference in differences))
    else:
        print_json(differences)
    return FAILED if differences else 0
