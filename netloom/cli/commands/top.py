"""Watch the node live: operations a second, failures, latencies, pools, queued DELs, repairs.

Keys: q quits, p pauses, f shows failures only. Up and down choose an event, and the screen shows its
details; enter shows all of them if there is no room, and escape goes back. Tab goes to the next table, ?
shows all keys. The command reads the journal beside the agent, and says so if no agent answers. A terminal of
80 by 24 shows all numbers. With --json, it prints those of the last minute once. The live view needs Textual:
pip install 'netloom[top]'.

examples:
  netloom top
  netloom top --json
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from ...ops.errors import OperationFailed, UsageError
from ..arguments import add_conf_dir, add_json, add_place, place_of
from ..terminal.tables import print_json
from ..top.reading import Reading

OUTPUT = Reading


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ..top.reading import Meter

    if args.json:
        print_json(Meter(place_of(args)).read())
        return 0
    if find_spec("textual") is None:
        raise OperationFailed(
            "the live view needs Textual, which is not installed",
            "`pip install 'netloom[top]'`, into the environment that netloom is in; `netloom top --json` "
            "shows the numbers without it",
            code="textual-missing",
        )
    if sys.stderr is None or not sys.stderr.isatty():
        # Which Textual draws on, so that what a program prints can still be piped.
        raise UsageError(
            "the live view needs standard error to be a terminal",
            "do not redirect it, or give --json",
        )
    from ..top.screen import Top

    top = Top(Meter(place_of(args)))
    top.run()
    return top.return_code or 0
