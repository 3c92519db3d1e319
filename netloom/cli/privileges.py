"""What only root can do is refused before it is begun."""

from __future__ import annotations

import os

from .failure import CommandFailed
from .root_advice import as_root


def require_root(what: str) -> None:
    """`what` the command does that needs it, as the middle of a sentence."""
    if os.geteuid() != 0:
        raise CommandFailed(f"permission denied: {what} needs root", as_root(), code="needs-root")
