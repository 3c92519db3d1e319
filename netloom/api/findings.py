"""Findings: problems on a node, in the same shape from `status`, `doctor`, `check` and `explain`.

`code` is for programs and names an entry of the catalogue; `text` and `next` are for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

# An error prevents something from working, or already has; a warning may.
Severity: TypeAlias = Literal["error", "warning"]


class Finding(Struct, frozen=True, kw_only=True):
    """One problem. `subject` is what it is about: an attachment, a path, a link, a network.

    `fix` is what `netloom doctor --fix` would do about it; empty if a person has to decide.
    """

    code: str
    text: str
    next: str
    subject: str = ""
    severity: Severity = "error"
    fix: str = ""

    @property
    def see(self) -> str:
        """The command that explains the finding."""
        return f"netloom explain {self.code}"


def remedy_of(code: str) -> str:
    """Returns the catalogue's remedy. The catalogue is only loaded when there is a finding."""
    from .catalogue import ENTRIES

    return ENTRIES[code].remedy


def any_error(findings: Iterable[Finding]) -> bool:
    return any(it.severity == "error" for it in findings)
