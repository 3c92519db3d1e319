"""Whether journal, pools and kernel agree; and of namespaces that somebody holds, who."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec.structs import replace

from ...api.findings import Finding
from ...ops.audit.audit import audit
from ..circumstances import without_agent, without_stale
from ..new_links import advised
from ..place import intents_dir
from ..queued import queued
from .ground import Ground
from .holders import Holder, holders

# For who holds namespaces: on a machine with very many processes, not all of them are looked at.
_PATIENCE = 1.0
# What an agent that runs can be asked to do at once.
_BY_AGENT = {
    "netns-stale": "let the agent release it now",
    "attachment-unfinished": "let the agent finish it now",
    "element-orphaned": "let the agent remove it now",
    "object-missing": "let the agent put it back now",
}


def look(ground: Ground) -> Iterator[Finding]:
    if ground.ledger is None:
        return
    ground.tell(f"comparing {len(ground.attachments)} attachments with the kernel")
    found = advised(audit(ground.ledger, ground.host, ground.pools), ground.attachments, ground.host)
    found = without_stale(found, ground.attachments, queued(intents_dir(ground.args)))
    if not ground.report.agent:
        found = without_agent(found)
    busy = {it.subject for it in found if it.code == "netns-busy"}
    inodes = {str(row.key): row.netns_inode for row in ground.attachments if str(row.key) in busy}
    held_by = holders(set(inodes.values()), time.monotonic() + _PATIENCE) if busy else {}
    for it in found:
        if it.code == "netns-busy":
            yield _named(it, held_by.get(inodes[it.subject], []))
        else:
            yield replace(it, fix=_BY_AGENT.get(it.code, "")) if ground.report.agent else it


def _named(busy: Finding, found: list[Holder]) -> Finding:
    if not found:
        return replace(
            busy,
            next="nobody can be named: a socket that was opened in it, or a process that cannot be seen from "
            "here, keeps it; restart the container's runtime, or delete the container with it",
        )
    return replace(
        busy,
        text=f"{busy.text}: {'; '.join(map(str, found))}",
        next="; ".join(dict.fromkeys(it.advice for it in found)),
    )
