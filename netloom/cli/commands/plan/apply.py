"""Create the objects of a plan. Objects that exist as planned are kept. An object that exists but differs is
a conflict; the command then leaves everything as it was.

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
    """One object of the plan, in the plan's order, and what was done with it."""

    change: Annotated[Literal["made", "kept"], Meta(description="whether it was created, or existed already")]
    object: Annotated[str, Meta(description="the object, for people")]


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
