"""How the node is, as `netloom status` says it. A machine that is no node yet has nothing to complain of."""

from __future__ import annotations

from collections.abc import Iterable

from ...findings import Finding
from .ground import Ground


def look(ground: Ground) -> Iterable[Finding]:
    return ground.report.findings if _is_one(ground) else ()


def _is_one(ground: Ground) -> bool:
    """Also one whose journal is gone, or whose networks cannot be read."""
    found = {it.code for it in ground.report.findings}
    return ground.is_node or bool(found - {"agent-not-running", "network-none"})
