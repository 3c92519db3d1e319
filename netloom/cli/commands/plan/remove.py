"""Remove the objects of a plan, in reverse order. Ignores missing objects, and keeps those of other software.

Without --netns, the command assumes that the attachment's namespace was deleted with all its objects.

examples:
  netloom plan remove pod.json
"""

from __future__ import annotations

import argparse

from ....kernel import KernelError, remove
from . import source

OUTPUT = None


def arguments(parser: argparse.ArgumentParser) -> None:
    source.arguments(parser)


def run(args: argparse.Namespace) -> int:
    plan = source.plan(args)
    with source.scope(args) as scope, source.undisturbed():
        try:
            remove(plan, scope)
        except KernelError as error:
            error.add_note("all other objects of the plan were removed")
            raise
    return 0
