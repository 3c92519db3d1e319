"""Which attachments need a new link, among those of which an audit has found something.

An audit tells of one object after the other. That the container's end is gone from its place explains them
all, and decides what helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.findings import Finding
from ..journal import Attachment
from ..kernel import Namespace, Scope
from ..networks.attachment import readable_plan
from ..ops.node.presence import namespace_of
from .live import for_a_new_link, lost_its_end


def advised(findings: Sequence[Finding], rows: Iterable[Attachment], host: Namespace) -> list[Finding]:
    changed = {it.subject for it in findings if it.code == "object-changed"}
    lost = {str(row.key) for row in rows if str(row.key) in changed and _has_lost_its_end(row, host)}
    return [for_a_new_link(it) if it.subject in lost else it for it in findings]


def _has_lost_its_end(row: Attachment, host: Namespace) -> bool:
    namespace, plan = namespace_of(row), readable_plan(row)
    if namespace is None:
        return False
    with namespace:
        return plan is not None and lost_its_end(plan, Scope(host, namespace))
