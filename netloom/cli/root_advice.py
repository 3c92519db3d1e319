"""What to do about a refusal that root would not get: the same command, as root."""

from __future__ import annotations

import os
import shlex
import sys

# What sudo does not pass on unless it is told to, and where the node's files are.
_PLACES = ("NETLOOM_STATE_DIR", "NETLOOM_SOCKET", "NETCONFPATH", "CNI_PATH")


def as_root() -> str:
    """The advice to run this very command as root."""
    kept = ",".join(it for it in _PLACES if os.environ.get(it))
    sudo = ["sudo", *([f"--preserve-env={kept}"] if kept else [])]
    return f"run it as root: `{shlex.join([*sudo, 'netloom', *sys.argv[1:]])}`"
