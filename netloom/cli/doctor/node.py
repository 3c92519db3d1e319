"""How the node is, as `netloom status` says it; also of a machine that is none yet."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ...api.findings import Finding
from ...ops.firewall.judging import CODE as FOREIGN_DROP
from ...ops.node import orphan_table
from ...ops.node.orphans import CODE as ORPHANED
from ...ops.node.orphans import every_finding_of, findings_of_services, orphans_at
from ...ops.node.presence import boot_id
from .ground import Ground

# What other looks judge at this moment, and an agent may have judged a while ago.
_BY_OTHERS = frozenset({FOREIGN_DROP, "object-changed", "route-diverted"})
# Of a journal that tells nothing, nobody knows which links are in it.
_LATER = "bring the journal to rights first: then `netloom doctor` names each"


def look(ground: Ground) -> Iterable[Finding]:
    """Of very many links that no attachment has, status names some; here, all are named."""
    ledger = ground.ledger
    found = [it for it in ground.report.findings if it.code not in _BY_OTHERS]
    found += _incomplete(ground)
    if all(it.subject for it in found if it.code == ORPHANED):
        return found
    if ledger is None:
        return [it if it.subject or it.code != ORPHANED else replace(it, next=_LATER) for it in found]
    others = [it for it in found if it.code != ORPHANED]
    return [*others, *every_finding_of(orphans_at(ground.host, lambda ask: ask(ledger)))]


def _incomplete(ground: Ground) -> Iterable[Finding]:
    """An agent that runs tells of them. Without one, what the last has kept does."""
    ledger = ground.ledger
    if ground.report.agent is not None or ledger is None:
        return []
    kept = orphan_table.read(ground.args.state_dir, boot_id())
    unknown = {link: it.unknown for link, it in kept.items() if it.unknown}
    return findings_of_services(orphans_at(ground.host, lambda ask: ask(ledger)), unknown) if unknown else []
