"""Show live numbers of the node: operations per second, failures, latencies, pools, queued DELs, repairs.

Keys: q quits, p pauses, f shows failures only. Up and down select an event, whose details are shown below;
enter shows them in full, and escape returns. Tab moves to the next table, ? shows all keys. The command reads
the journal, and says so if no agent answers. A terminal of 80 by 24 has room for all numbers. With --json, it
prints the numbers of the last minute once. The live view needs Textual: pip install 'netloom[top]'.

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
            "`pip install 'netloom[top]'` in netloom's Python environment; `netloom top --json` works "
            "without it",
            code="textual-missing",
        )
    if sys.stderr is None or not sys.stderr.isatty():
        # Textual draws on standard error, so that standard output can be redirected.
        raise UsageError(
            "the live view needs standard error to be a terminal",
            "do not redirect it, or use `netloom top --json`",
        )
    from ..top.screen import Top

    top = Top(Meter(place_of(args)))
    top.run()
    return top.return_code or 0
