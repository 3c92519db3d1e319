"""The agent's findings: what would make an ADD fail, and what is leaked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..api.findings import Finding, Severity, any_error
from ..ops.findings import kernel as kernel_findings
from ..ops.findings import node as node_findings
from ..ops.findings.attachments import many_unwell
from ..ops.findings.node import not_answering, troubled, untrusted
from ..ops.node import orphans
from .settings import Settings

if TYPE_CHECKING:
    from .node import Node

_SHOWN = 3


def findings_of(node: Node) -> list[Finding]:
    found = failures_of(node)
    if node.journal.trouble and not node.journal.damage:  # which is a failure
        found.append(node_findings.wrong("journal-unwritable", node.journal.trouble, node.settings.journal))
    found += node.conditions.findings()
    found += _of_attachments(node)
    unknown = {link: it.unknown for link, it in node.orphans.contents.items()}
    return [
        *found,
        *orphans.findings_of_services(node.host.orphans, unknown),
        *orphans.findings_of(node.host.orphans),
    ]


def failures_of(node: Node) -> list[Finding]:
    return [_of_failure(what, text, node.settings) for what, text in node.conditions.failures.items()]


def _of_failure(what: str, text: str, settings: Settings) -> Finding:
    """Returns the finding for a failure of the node, which has the name `what`."""
    match what:
        case "journal":
            return node_findings.wrong("journal-gone", text, settings.journal)
        case "damage":
            return node_findings.wrong("journal-damaged", text, settings.journal)
        case "table":
            return kernel_findings.table_broken([text])
        case "socket":
            return not_answering("socket-unreachable", text, settings.socket)
        case "directory":
            return untrusted(os.path.dirname(settings.socket), text)
        case _:
            return troubled(text)


def _of_attachments(node: Node) -> Iterator[Finding]:
    listed = node.attachments.findings()
    for found in listed[:_SHOWN]:
        yield from found
    if len(listed) > _SHOWN:
        many = listed[_SHOWN:]
        severity: Severity = "error" if any(any_error(it) for it in many) else "warning"
        yield replace(many_unwell(len(many)), severity=severity)
