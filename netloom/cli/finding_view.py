"""A finding as people see it: what is wrong, what to do, and where to read more."""

from __future__ import annotations

from collections.abc import Sequence

from ..api.findings import Finding
from .output import printable_line

_AT_MOST = 10


def finding_lines(found: Finding) -> list[str]:
    return [
        printable_line(f"{found.severity}: {found.text}"),
        printable_line(f"  next: {found.next}"),
        f"  more: {found.see}",
    ]


def lines_of_alike(found: Sequence[Finding]) -> list[str]:
    """Of several with the same remedy, which is told once."""
    told, more = found[:_AT_MOST], len(found) - _AT_MOST
    lines = [printable_line(f"{it.severity}: {it.text}") for it in told[:-1]]
    of_last = finding_lines(told[-1])
    and_more = [f"  and {more} more like these: --json has all of them"] if more > 0 else []
    return [*lines, of_last[0], *and_more, *of_last[1:]]
