"""What an audit finds, in the light of what it does not know: DELs that wait, and whether an agent runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ..api.findings import Finding
from ..journal import Attachment
from .queued import Queued

_UP = "`netloom up` starts an agent, which does it"
# What a running agent does by itself, and no command does without one.
_BY_AGENT = frozenset(
    {"netns-stale", "object-missing", "attachment-unfinished", "table-broken", "element-orphaned"}
)


def without_stale(
    findings: Iterable[Finding], rows: Iterable[Attachment], dels: Sequence[Queued]
) -> list[Finding]:
    """Without namespaces that are gone because their container was deleted: the DEL waits for the agent."""
    waiting = {str(row.key) for row in rows if any(it.is_about(row) for it in dels)} if dels else set()
    return [it for it in findings if it.code != "netns-stale" or it.subject not in waiting]


def without_agent(findings: Iterable[Finding]) -> list[Finding]:
    """With advice that can be followed while no agent runs."""
    return [replace(it, next=_UP) if it.code in _BY_AGENT else it for it in findings]
