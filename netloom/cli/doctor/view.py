"""A diagnosis as people see it: what is wrong and what to do, and what the kernel lacks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from ...api.findings import Finding
from ..output import printable_line, say
from .diagnosis import Diagnosis

# Of findings with one remedy, so many are shown.
_SHOWN = 8
_WIDTH = 78
# Nothing is said of what is over before anybody wonders.
_QUIET = 0.7


def show(found: Diagnosis) -> None:
    for it in found.fixed:
        what = "done" if it.done else "not done" if it.error else "would be done"
        why = f" ({it.error})" if it.error else ""
        say(printable_line(f"{what}: {it.subject}: {it.text}{why}"))
    if found.fixed:
        say("")
    for group in _groups(found.findings):
        _show_group(group)
    if not found.findings:
        say(f"nothing is wrong: {', '.join(it.look for it in found.looks)}", "")
    if found.features:
        _show_features(found)


def _groups(found: Sequence[Finding]) -> list[list[Finding]]:
    """What has the same remedy stands together, and the remedy once."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for it in found:
        groups.setdefault((it.code, it.severity, it.next), []).append(it)
    return list(groups.values())


def _show_group(group: Sequence[Finding]) -> None:
    first = group[0]
    say(*(printable_line(f"{it.severity}: {it.text}") for it in group[:_SHOWN]))
    if len(group) > _SHOWN:
        say(f"… and {len(group) - _SHOWN} more of the kind (--json lists all)")
    say(printable_line(f"  next: {first.next}"))
    if first.fix:
        say(printable_line(f"  fix:  `netloom doctor --fix` would {first.fix}"))
    say(f"  more: {first.see}", "")


def _show_features(found: Diagnosis) -> None:
    lacking = [it for it in found.features if it.essential and not it.present]
    others = [it.feature for it in found.features if not it.essential and not it.present]
    enough = "lacks what every node needs" if lacking else "has what every node needs"
    optional = (
        f"; it lacks {', '.join(others)}, which some networks need (--json tells more)" if others else ""
    )
    say(f"Linux {found.kernel} {enough}{optional}")


class Progress:
    """A line on the terminal, if there is one, which is gone at the end."""

    def __init__(self, terminal: TextIO | None) -> None:
        self._terminal = terminal if terminal is not None and terminal.isatty() else None
        self._began = time.monotonic()

    def tell(self, text: str) -> None:
        if self._terminal is not None and time.monotonic() - self._began > _QUIET:
            self._terminal.write(f"\r\x1b[K{text[:_WIDTH]}")
            self._terminal.flush()

    def clear(self) -> None:
        if self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()


@contextmanager
def progress() -> Iterator[Progress]:
    shown = Progress(sys.stderr)
    try:
        yield shown
    finally:
        shown.clear()
