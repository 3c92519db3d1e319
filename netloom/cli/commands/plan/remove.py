"""Remove the objects of a plan, in reverse. What is gone already is fine; what is not ours stays.

Without --netns, what was in the attachment's namespace counts as gone with it.

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
            error.add_note("everything else of the plan is gone")
            raise
    return 0
