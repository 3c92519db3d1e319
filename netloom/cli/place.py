"""Where an agent keeps its state and where it listens: the same options for every command that needs it."""

from __future__ import annotations

import argparse
import os

STATE_DIR = "/var/lib/netloom"
SOCKET = "/run/netloom/agent.sock"


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default=os.environ.get("NETLOOM_STATE_DIR") or STATE_DIR,
        help=f"where the journal is (default {STATE_DIR}, or $NETLOOM_STATE_DIR)",
    )
    parser.add_argument(
        "--socket",
        metavar="PATH",
        default=os.environ.get("NETLOOM_SOCKET") or SOCKET,
        help=f"where the agent listens (default {SOCKET}, or $NETLOOM_SOCKET)",
    )
