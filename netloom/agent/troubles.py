"""What an agent knows to be in the way of an ADD, or left over: as findings, whose pages tell more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalogue import ENTRIES
from ..findings import Finding
from . import orphans

if TYPE_CHECKING:
    from .node import Node

# By the names that the node's troubles have.
_CODES = {"journal": "journal-gone", "table": "table-broken"}
_OTHER = "agent-troubled"


def findings_of(node: Node) -> list[Finding]:
    found = [_finding(_CODES.get(what, _OTHER), text, node) for what, text in node.troubles.items()]
    if node.journal.trouble:
        found.append(_finding("journal-unwritable", node.journal.trouble, node))
    return [*found, *orphans.findings_of(node.host.orphans)]


def _finding(code: str, text: str, node: Node) -> Finding:
    subject = node.settings.journal if code.startswith("journal") else ""
    return Finding(code=code, text=text, next=ENTRIES[code].remedy, subject=subject)
