"""`netloom` without metrics and without the log of operations: what they cost is measured against this.

No user can have an agent like that, and no switch leads to it. Here, the functions that count, time and write
down are replaced by some that do nothing; all the rest is the same code.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _replace(owner: Any, name: str, by: Any) -> None:
    if not hasattr(owner, name):
        raise SystemExit(f"there is no {name} in {owner!r} any more: the benchmark has to be mended")
    setattr(owner, name, by)


def main() -> int:
    from netloom.agent.metrics.tally import Tally
    from netloom.agent.server import dispatcher
    from netloom.agent.server.record import Timer
    from netloom.cli.main import main as command
    from netloom.journal import Journal

    # The end of every request: its counters, its histograms, and its line in the log of operations.
    _replace(dispatcher.Dispatcher, "_record", _nothing)
    _replace(dispatcher, "trace_of", lambda _: "")
    _replace(dispatcher, "caller_of", lambda _: "")
    # The clock of its phases.
    _replace(Timer, "lap", _nothing)
    # What the journal's thread counts, and what the agent notes by itself.
    _replace(Tally, "commit", _nothing)
    _replace(Journal, "log", _nothing)
    # Nor is there a place to ask for metrics.
    os.environ["NETLOOM_METRICS_LISTEN"] = "none"
    return command()


if __name__ == "__main__":
    sys.exit(main())
