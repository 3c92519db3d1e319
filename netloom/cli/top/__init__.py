"""Watch the node live: operations a second, failures, latencies, pools, what waits, what was repaired.

Keys: q quits, p pauses, f shows failures only, up and down choose an event, whose details are shown, enter
shows them whole where there is no room for them, and escape goes back, tab goes to the next table, ? shows
all of them. It reads the journal beside the agent, and says so if none answers. A terminal of 80 by 24 shows
all numbers. With --json, those of the last minute are printed once. The live view needs Textual: pip install
'netloom[top]'.

examples:
  netloom top
  netloom top --json
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from ..arguments import add_json
from ..failure import CommandFailed, UsageError
from ..place import add_conf_dir, add_place
from ..views import print_json
from .reading import Reading

OUTPUT = Reading


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from .meter import Meter

    if args.json:
        print_json(Meter(args).read())
        return 0
    if find_spec("textual") is None:
        raise CommandFailed(
            "the live view needs Textual, which is not installed",
            "`pip install 'netloom[top]'`, into the environment that netloom is in; `netloom top --json` "
            "shows the numbers without it",
            code="textual-missing",
        )
    if sys.stderr is None or not sys.stderr.isatty():
        # Which Textual draws on, so that what a program prints can still be piped.
        raise UsageError(
            "the live view is drawn on standard error, and that is no terminal",
            "do not redirect it, or give --json",
        )
    from .screen import Top

    top = Top(Meter(args))
    top.run()
    return top.return_code or 0
