"""Make the objects of a plan. What is there already and equal is kept; what is there and different
is a conflict, and then everything is left as it was.

examples:
  netloom plan apply node.json
  netloom plan apply pod.json --netns web
"""

from __future__ import annotations

import argparse

from ...kernel import apply
from ..output import require_output, say
from ..views import for_a_person, print_json, table
from . import source


def arguments(parser: argparse.ArgumentParser) -> None:
    source.arguments(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    plan = source.plan(args)
    source.require_namespace(plan, args)
    with source.scope(args) as scope, source.undisturbed():
        changes = apply(plan, scope)
    if for_a_person(args.json):
        say(*table([(change.change, change.object) for change in changes]))
    else:
        print_json([{"change": change.change, "object": change.object} for change in changes])
    return 0
