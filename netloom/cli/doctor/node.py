"""How the node is, as `netloom status` says it; also of a machine that is none yet."""

from __future__ import annotations

from collections.abc import Iterable

from ...findings import Finding
from .ground import Ground


def look(ground: Ground) -> Iterable[Finding]:
    return ground.report.findings
