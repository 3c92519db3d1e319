"""What an agent knows to be in the way of an ADD, or left over: as findings, whose pages tell more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..api.catalogue import ENTRIES
from ..api.findings import Finding
from ..ops.node import orphans
from .readiness import CODES

if TYPE_CHECKING:
    from .node import Node

_OTHER = "agent-troubled"
_SHOWN = 3


def findings_of(node: Node) -> list[Finding]:
    found = [_finding(CODES.get(what, _OTHER), text, node) for what, text in node.troubles.items()]
    if node.journal.trouble:
        found.append(_finding("journal-unwritable", node.journal.trouble, node))
    found += [it.finding for it in dict(node.conditions).values()]
    found += _of_unrepaired(node)
    unknown = {link: it.unknown for link, it in node.orphan_table.items()}
    return [
        *found,
        *orphans.findings_of_services(node.host.orphans, unknown),
        *orphans.findings_of(node.host.orphans),
    ]


def _of_unrepaired(node: Node) -> Iterator[Finding]:
    listed = list(node.unrepaired.values())
    for key, why in listed[:_SHOWN]:
        yield Finding(
            code="attachment-unrepaired",
            subject=str(key),
            text=f"{key} has lost a part of its network, and the agent cannot put it back: {why}",
            next=f"`netloom check {key}` shows what is missing; clear what the message names, or detach and "
            "attach the container",
        )
    if len(listed) > _SHOWN:
        yield Finding(
            code="attachment-unrepaired",
            text=f"{len(listed) - _SHOWN} more attachments have lost a part of their network",
            next="`netloom check` names each",
        )


def _finding(code: str, text: str, node: Node) -> Finding:
    subject = node.settings.journal if code.startswith("journal") else ""
    if code == CODES["socket"]:
        subject = node.settings.socket
    elif code == CODES["directory"]:
        subject = os.path.dirname(node.settings.socket)
    return Finding(code=code, text=text, next=ENTRIES[code].remedy, subject=subject)
