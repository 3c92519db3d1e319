"""Where a node of netloom keeps what: every path is composed here."""

from __future__ import annotations

import os

DEFAULT_STATE_DIR = "/var/lib/netloom"
DEFAULT_SOCKET = "/run/netloom/agent.sock"
DEFAULT_CONF_DIR = "/etc/cni/net.d"


def journal_of(state_dir: str) -> str:
    return os.path.join(state_dir, "journal.db")


def intents_of(socket: str) -> str:
    """The directory of DELs that wait for an agent."""
    return os.path.join(os.path.dirname(socket), "intents")
