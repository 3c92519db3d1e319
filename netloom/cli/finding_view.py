"""A finding as people see it: what is wrong, what to do, and where to read more."""

from __future__ import annotations

from ..findings import Finding
from .output import printable


def finding_lines(found: Finding) -> list[str]:
    return [
        printable(f"{found.severity}: {found.text}"),
        printable(f"  next: {found.next}"),
        f"  more: {found.see}",
    ]
