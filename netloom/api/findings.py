"""What is not as it should be on a node: the same shape from `status`, `doctor`, `check` and `explain`.

`code` is for programs, and the name of a page in the catalogue; `text` and `next` are for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

# An error keeps something from working, or has already; a warning may.
Severity: TypeAlias = Literal["error", "warning"]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. `subject` is what it is about: an attachment, a path, a link, a network.

    `fix` is what `netloom doctor --fix` would do about it; empty if that is for a person to decide.
    """

    code: str
    text: str
    next: str
    subject: str = ""
    severity: Severity = "error"
    fix: str = ""

    @property
    def see(self) -> str:
        """How to read more about it."""
        return f"netloom explain {self.code}"


def remedy_of(code: str) -> str:
    """What the catalogue says to do about it. A node that is well never loads that."""
    from .catalogue import ENTRIES

    return ENTRIES[code].remedy


def any_error(findings: Iterable[Finding]) -> bool:
    return any(it.severity == "error" for it in findings)
