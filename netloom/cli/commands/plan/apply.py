"""Make the objects of a plan. What is there already and equal is kept; what is there and different
is a conflict, and then everything is left as it was.

examples:
  netloom plan apply node.json
  netloom plan apply pod.json --netns web
"""

from __future__ import annotations

import argparse
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ....kernel import apply
from ...terminal.output import require_output, say
from ...terminal.tables import print_json, table
from . import source


class Applied(Struct, frozen=True):
    """What was done with one object of the plan, in the plan's order."""

    change: Annotated[Literal["made", "kept"], Meta(description="whether it was made, or was there already")]
    object: Annotated[str, Meta(description="the object, as people name it")]


OUTPUT = list[Applied]


def arguments(parser: argparse.ArgumentParser) -> None:
    source.arguments(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    plan = source.plan(args)
    source.require_namespace(plan, args)
    with source.scope(args) as scope, source.undisturbed():
        changes = apply(plan, scope)
    if not args.json:
        say(*table([(change.change, change.object) for change in changes]))
    else:
        print_json([Applied(change.change, change.object) for change in changes])
    return 0
