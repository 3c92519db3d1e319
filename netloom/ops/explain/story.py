"""The story of a container, a pod or an interface: its operations, their outcome, and its state now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.catalogue import entry
from ...api.findings import Finding
from ...api.times import shown
from ...cni import AttachmentKey
from ...journal import Attachment, Ledger, search
from ...kernel import KernelError, Namespace
from ...networks.attachment import addresses_of
from ..findings.kernel import queued_dels
from ..firewall.flows import around, flows_of
from ..firewall.openings import findings_of as findings_of_firewalls
from ..inspect.attachment_state import (
    Live,
    findings_of,
    findings_of_table,
    live_state,
    refusals,
    refused_at,
    without_stale,
)
from ..inspect.listing import Queued
from .events import Event, event_of
from .explanation import Explanation, Present
from .names import Subject

_ASKED = frozenset({"ADD", "DEL"})
_GONE = {
    "DEL": "detached",
    "RELEASE": "released by the agent",
    "REPLAY": "detached, by a DEL that had waited for the agent",
    "UNDO": "removed by the agent, since it was unfinished",
}
# Seconds around a failure in which events of the node may be its cause.
_NEAR = 30.0
# Seconds to judge firewalls; `netloom doctor` takes longer if needed.
_LONGEST = 1.0


def story_of(
    asked: str, subject: Subject, ledger: Ledger, host: Namespace, dels: Sequence[Queued], limit: int
) -> Explanation:
    rows = [row for key in subject.keys if (row := ledger.find(key)) is not None]
    compared = [(row, live_state(row, host)) for row in sorted(rows, key=lambda row: row.id)]
    refused = (refused_at(host) if compared else None) or {}
    operations = _operations(subject, ledger)
    own = [
        *(findings_of_table(host) if compared else ()),
        *(it for row, live in compared for it in without_stale(findings_of(row, live), [row], dels)),
        *(finding for row, _ in compared for finding in refusals(row, refused.get(row.host_link))),
        *_queued([row for row, _ in compared if is_queued(row, dels)]),
        *_failures(operations, {row.key for row, _ in compared}),
    ]
    findings = [
        *own,
        *(it for row, live in compared if live.has_link for it in firewalls_of(row, ledger, host)),
    ]
    shown_operations = operations[max(len(operations) - limit, 0) :]
    return Explanation(
        asked=asked,
        kind=subject.kind,
        name=subject.name,
        summary=_summary(compared, operations, own),
        attachments=[present_of(row, live, dels) for row, live in compared],
        operations=shown_operations,
        omitted=len(operations) - len(shown_operations),
        findings=findings,
        since=search.first_logged(ledger),
    )


def is_queued(row: Attachment, dels: Sequence[Queued]) -> bool:
    return any(one.is_about(row) for one in dels)


def present_of(row: Attachment, live: Live, dels: Sequence[Queued]) -> Present:
    objects = live.objects
    return Present(
        network=row.network,
        container_id=row.container_id,
        ifname=row.ifname,
        namespace=row.namespace,
        pod=row.pod,
        state=row.state,
        created=row.created_at,
        addresses=list(addresses_of(row.result)),
        host_link=row.host_link,
        netns=row.netns,
        presence=live.namespace,
        queued=is_queued(row, dels),
        planned=None if objects is None else len(objects),
        differing=[it for it in objects or () if it.state != "as planned"],
    )


def _operations(subject: Subject, ledger: Ledger) -> list[Event]:
    """Returns its operations, the oldest first, and events of the node around a failure."""
    if subject.kind == "pod":
        namespace, _, pod = subject.name.rpartition("/")
        found = ledger.operations_of_pod(pod, namespace)
    else:
        keys = subject.keys
        found = [
            it
            for container in subject.containers
            for it in ledger.operations_of_container(container)
            if AttachmentKey(it.network, it.container_id, it.ifname) in keys
        ]
    failed = [it.started for it in found if it.code]
    if failed:
        around = ledger.operations_of_node("START", "STOP", "TABLE")
        found += [it for it in around if abs(it.started - max(failed)) <= _NEAR]
    return [event_of(it) for it in sorted(found, key=lambda it: it.id)]


def _queued(rows: Iterable[Attachment]) -> Iterable[Finding]:
    for row in rows:
        yield queued_dels(1, str(row.key), has_agent=False)


def _failures(operations: Sequence[Event], attached: set[AttachmentKey]) -> Iterable[Finding]:
    """Reports interfaces whose last ADD or DEL failed. A DEL after a failed ADD only cleans up."""
    last: dict[tuple[str, str], Event] = {}
    for it in operations:
        before = last.get((it.network, it.ifname))
        cleans_up = before is not None and before.verb == "ADD" and before.failed and it.verb == "DEL"
        if it.verb in _ASKED and not (cleans_up and not it.failed):
            last[it.network, it.ifname] = it
    for it in last.values():
        key = AttachmentKey(it.network, it.container_id, it.ifname)
        if it.failed and (it.verb == "ADD" or key in attached):
            yield _failure(it, str(key))


def _failure(it: Event, key: str) -> Finding:
    by = f", asked by {it.caller}," if it.caller else ""
    text = f"{it.verb} of {key} at {shown(it.started)}{by} failed with code {it.code}: {it.error}"
    page = entry(it.reason) or entry(it.code)
    return Finding(
        code="add-failed" if it.verb == "ADD" else "del-failed",
        text=text,
        next="read the agent's log" if page is None else page.remedy,
        subject=key,
    )


def _summary(
    compared: Sequence[tuple[Attachment, Live]], operations: Sequence[Event], findings: Sequence[Finding]
) -> str:
    if compared:
        parts = [_attached(row, live) for row, live in compared]
        return f"{'; '.join(parts)}{'' if findings else ', as planned'}"
    if any(it.code == "add-failed" for it in findings):
        return "not attached: the last ADD failed"
    # Operations on an attachment have its addresses; a DEL that found nothing has none.
    seen = [it for it in operations if it.addresses and not it.failed]
    if not seen:
        return "not attached, and never was since the log began"
    last = seen[-1]
    if last.verb not in _GONE:
        after = f"{last.verb} at {shown(last.started)}"
        return f"no longer attached; the log does not say since when: its last line is {after}"
    by = f", asked by {last.caller}" if last.caller else ""
    return f"no longer attached: {_GONE[last.verb]} at {shown(last.started)}{by}"


def _attached(row: Attachment, live: Live) -> str:
    if row.state != "committed":
        return f"partly attached to {row.network} as {row.ifname} ({row.state})"
    addresses = ", ".join(addresses_of(row.result)) or "no address"
    how = "" if live.namespace == "there" else " (its namespace was deleted)"
    return f"attached to {row.network} as {row.ifname} with {addresses} since {shown(row.created_at)}{how}"


def firewalls_of(row: Attachment, ledger: Ledger, host: Namespace) -> list[Finding]:
    """Judges firewalls for its own addresses and link, with the findings of `doctor`."""
    addresses = [(f"{it}/{128 if ':' in it else 32}", False) for it in addresses_of(row.result)]
    has_ports = any(number == row.id for number, _ in ledger.ports())
    try:
        about = around(host, addresses, has_ports=has_ports)
        return findings_of_firewalls(host, flows_of(about, row.host_link), _LONGEST)
    except (KernelError, OSError):
        return []
