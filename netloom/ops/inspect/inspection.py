"""`netloom inspect`: an attachment as the journal and the kernel have it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...api.paths import Place
from ...api.text import for_shell, shown_ip
from ...journal import Attachment, Ledger
from ...kernel import InvalidNamespace, Namespace
from ..errors import OperationFailed
from ..explain.names import rows_of
from ..journals.reading import ledger
from .attachment_state import (
    Live,
    RefusedPackets,
    counters_of,
    findings_of,
    live_state,
    refusals,
    refused_at,
    without_stale,
)
from .documents import AttachedWorkload, Counters, Held, Inspected, Netns, Way
from .listing import Queued, queued
from .plan_facts import facts_of

# Seconds of the search for processes that hold a namespace, and how many of them are shown.
_PATIENCE = 2.0
_MOST = 20


def inspect(place: Place, name: str) -> list[Inspected]:
    with ledger(place) as journal, Namespace.own() as host:
        rows = [] if journal is None else rows_of(journal, name)
        dels, refused = queued(place.intents), refused_at(host)
        found = [] if journal is None else [_inspected(row, journal, host, dels, refused) for row in rows]
    if not found:
        raise OperationFailed(
            f"there is no attachment named {name!r}",
            f"`netloom explain {for_shell(name)}` shows what happened to it; `netloom ls` lists attachments",
            code="not-attached",
        )
    return found


def _inspected(
    row: Attachment,
    journal: Ledger,
    host: Namespace,
    dels: Sequence[Queued],
    refused: Mapping[str, RefusedPackets] | None,
) -> Inspected:
    live = live_state(row, host)
    of_it = None if refused is None else refused.get(row.host_link)
    facts, result = facts_of(row.plan), _decoded(row.result)
    return Inspected(
        network=row.network,
        container_id=row.container_id,
        ifname=row.ifname,
        workload=AttachedWorkload(row.namespace, row.pod, row.uid),
        state=row.state,
        queued=any(it.is_about(row) for it in dels),
        created=row.created_at,
        addresses=[shown_ip(ip) for _, ip in journal.addresses_of(row.id)],
        routes=_routes(result),
        mac=facts.mac,
        mtu=facts.mtu,
        host_link=row.host_link,
        rank=row.rank,
        host_ports=list(facts.ports),
        bandwidth=facts.bandwidth,
        masquerade=facts.masquerade,
        isolation=facts.isolation,
        netns=_netns(row, live),
        config_hash=row.config_hash,
        counters=_counters(
            row, live, host, None if refused is None else 0 if of_it is None else of_it.packets
        ),
        objects=live.objects,
        result=result,
        findings=[*without_stale(findings_of(row, live), [row], dels), *refusals(row, of_it)],
    )


def _decoded(result: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(result, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _routes(result: dict[str, Any] | None) -> list[Way]:
    listed = (result or {}).get("routes")
    routes = [it for it in listed if isinstance(it, dict)] if isinstance(listed, list) else []
    return [Way(str(it["dst"]), str(it.get("gw") or "")) for it in routes if "dst" in it]


def _netns(row: Attachment, live: Live) -> Netns:
    return Netns(
        path=row.netns,
        inode=row.netns_inode,
        presence=live.namespace,
        # If another namespace has its inode, its holders cannot be told apart.
        holders=[] if live.namespace == "replaced" else _holders(row.netns_inode),
    )


def _holders(inode: int) -> list[Held]:
    from ..doctor import services
    from ..doctor.services import holders

    found = holders({inode}, time.monotonic() + _PATIENCE)[inode]
    return [Held(it.process, services.name(it.process), it.how, it.mounted) for it in found[:_MOST]]


def _counters(row: Attachment, live: Live, host: Namespace, refused: int | None) -> Counters | None:
    if live.namespace != "there":
        return counters_of(row.host_link, row.ifname, host, None, refused)
    try:
        with Namespace.open(row.netns) as container:
            return counters_of(row.host_link, row.ifname, host, container, refused)
    except InvalidNamespace:  # it was deleted just now
        return None
