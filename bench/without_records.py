"""`netloom` without metrics and without the log of operations, to measure what they cost.

Users cannot have such an agent; there is no option for it. Here, the functions that count, time and log are
replaced by functions that do nothing; all other code is the same.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _replace(owner: Any, name: str, by: Any) -> None:
    if not hasattr(owner, name):
        raise SystemExit(f"{owner!r} no longer has {name}: update this benchmark")
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
    # What the journal's thread counts, and what the agent logs by itself.
    _replace(Tally, "commit", _nothing)
    _replace(Journal, "log", _nothing)
    # The metrics endpoint.
    os.environ["NETLOOM_METRICS_LISTEN"] = "none"
    return command()


if __name__ == "__main__":
    sys.exit(main())
