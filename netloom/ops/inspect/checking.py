"""Compares attachments with the kernel, and asks the agent to repair them.

While an agent runs, a change in progress looks like a defect. So a finding counts only if a later comparison
repeats it for the same subject. Names may be reused, so an attachment is identified by its creation time, and
a link by its index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import Place
from ...api.protocol import AT_A_TIME, RepairAnswer, RepairedAttachment, RepairRequest
from ...api.text import for_shell
from ...cni import AttachmentKey, CNIError
from ...ipam import Pool
from ...journal import Attachment, Ledger
from ...kernel import Namespace, NftElement
from ...kernel.objects.link import link_names
from ...networks.attachment import readable_plan
from ..audit import Plans, as_planned, audit, plans_of
from ..control.asking import ask
from ..control.process import holder
from ..errors import OperationFailed
from ..explain.names import rows_of
from ..findings.attachments import foreign_address
from ..journals.reading import copy_of_journal, reading
from ..node import table_contents as contents
from ..node.namespaces import namespace_of
from ..node.networks import node_networks
from .attachment_state import (
    advise_new_links,
    advise_up,
    findings_of,
    findings_of_table,
    foreign_addresses,
    live_state,
    without_stale,
)
from .documents import Checked
from .listing import configured_networks, queued

# Seconds before each further comparison. Nearly every change is over by the second.
RECHECK_AFTER = (0.3, 0.5)
# Seconds for the attachments of one request: far longer than it takes.
_PATIENCE = 60.0

# Numbers by subject of findings. No later thing of the same name has the same number.
Identities: TypeAlias = Mapping[str, float]
# Receives what is done, how many of it, and of how many.
Progress: TypeAlias = Callable[[str, int, int], None]


class Comparison(NamedTuple):
    """`is_served` is whether an agent runs, whose work may look like a defect."""

    keys: list[AttachmentKey]
    findings: list[Finding]
    is_served: bool
    identities: Identities


def check(place: Place, name: str | None, progress: Progress) -> Checked:
    """Reports differences that persist. `name` is a network or an attachment; None: all."""
    return _document(_compare_again(place, name, progress))


def repair(place: Place, name: str | None, progress: Progress, *, recreate: bool) -> Checked:
    """Asks the agent to repair differences, and reports those that remain."""
    done = _repaired(place, _compare(place, name, progress), progress, recreate=recreate)
    found = _compare_again(place, name, progress)
    if not recreate:
        found = found._replace(findings=[_advise_recreate(it) for it in found.findings])
    return _document(found, done)


def _document(found: Comparison, done: RepairAnswer | None = None) -> Checked:
    wrong = {it.subject for it in found.findings}
    return Checked(
        attachments=[str(key) for key in found.keys],
        repaired=None if done is None else [it for it in done.repaired if _is_reported(it, wrong)],
        table=done is not None and done.table,
        findings=found.findings,
    )


def _is_reported(it: RepairedAttachment, wrong: Collection[str]) -> bool:
    """Leaves out attachments that were being made or deleted, and have no finding now."""
    return it.changed or bool(it.left) or (bool(it.error) and it.attachment in wrong)


def _advise_recreate(it: Finding) -> Finding:
    """Replaces the advice of a finding that a repair did not fix."""
    if it.code not in ("object-missing", "object-changed"):
        return it
    advice = f"`netloom check {it.subject} --repair --recreate` makes a new link, and ends its connections"
    return replace(it, next=advice)


def identities(rows: Iterable[Attachment], host: Namespace) -> Identities:
    links = {it.name: it.index for it in link_names(host).values()}
    return {**links, **{str(row.key): row.created for row in rows}}


def is_same(subject: str, one: Identities, other: Identities) -> bool:
    """True also for a subject without an identity, such as a pool or an element of the table."""
    return one.get(subject) == other.get(subject)


def _compare_again(place: Place, name: str | None, progress: Progress) -> Comparison:
    found = _compare(place, name, progress)
    for seconds in RECHECK_AFTER if found.is_served else ():
        if not found.findings:
            break
        time.sleep(seconds)
        again = _compare(place, name, progress, {it.subject for it in found.findings})
        found = again._replace(
            findings=[
                it
                for it in found.findings
                if it in again.findings and is_same(it.subject, found.identities, again.identities)
            ]
        )
    return found


def _compare(
    place: Place, name: str | None, progress: Progress, only: Collection[str] | None = None
) -> Comparison:
    """`only` are the attachments to compare again; the others had no difference."""
    ledger = copy_of_journal(place)
    is_served = holder(place) is not None
    if ledger is None:
        if name is not None:
            raise _unknown(name)
        return Comparison([], [], is_served, {})
    with reading(place), Namespace.own() as host:
        bulk = _BulkCheck(host, only, progress)
        if name is None:
            findings = audit(ledger, host, _pools(place), bulk_check=bulk)
            findings = advise_new_links(findings, bulk.others, host)
            findings += [it for row in bulk.others for it in _foreign(row)]
        else:
            rows = _meant(place, name, ledger)
            bulk(rows, plans_of(rows), contents.there(host))
            findings = findings_of_table(host)
            findings += [it for row in bulk.others for it in findings_of(row, live_state(row, host))]
        keys = [row.key for row in bulk.rows]
        findings = without_stale(findings, bulk.others, queued(place.intents))
        if not is_served:
            findings = advise_up(findings)
        return Comparison(keys, findings, is_served, identities(bulk.rows, host))


class _BulkCheck:
    """Returns which attachments are as planned, and keeps the others."""

    def __init__(self, host: Namespace, only: Collection[str] | None, progress: Progress) -> None:
        self._progress = progress
        self._host = host
        self._only = only
        self.rows: Sequence[Attachment] = ()
        self.others: Sequence[Attachment] = ()

    def __call__(
        self, rows: Sequence[Attachment], plans: Plans, elements: Sequence[NftElement]
    ) -> Collection[int]:
        if self._only is None:
            fine = as_planned(rows, plans, self._host, elements, partial(self._progress, "compared"))
        else:
            fine = frozenset(row.id for row in rows if str(row.key) not in self._only)
        self.rows, self.others = rows, [row for row in rows if row.id not in fine]
        return fine


def _meant(place: Place, name: str, ledger: Ledger) -> list[Attachment]:
    of_network = [row for row in ledger.attachments() if row.network == name]
    if of_network:
        return of_network
    rows = rows_of(ledger, name)
    if not rows and name not in configured_networks(place.conf_dir):
        raise _unknown(name)
    return rows


def _unknown(name: str) -> OperationFailed:
    return OperationFailed(
        f"there is no network and no attachment named {name!r}",
        f"`netloom explain {for_shell(name)}` shows what happened to it; `netloom ls` lists attachments",
        code="not-attached",
    )


def _pools(place: Place) -> list[Pool]:
    """Returns the pools; one that several networks share is listed once."""
    try:
        networks = [it.network for it in node_networks(place.conf_dir)]
    except CNIError:
        return []
    return list(dict.fromkeys(pool for network in networks if network for pool in network.pools))


def _foreign(row: Attachment) -> list[Finding]:
    namespace, plan = namespace_of(row), readable_plan(row)
    if namespace is None:
        return []
    with namespace:
        return (
            []
            if plan is None
            else [foreign_address(row, it, row.ifname) for it in foreign_addresses(plan, namespace)]
        )


def _repaired(place: Place, found: Comparison, progress: Progress, *, recreate: bool) -> RepairAnswer:
    """Sends attachments in several requests, so that no answer takes too long."""
    subjects = {it.subject for it in found.findings}
    keys = [key for key in found.keys if str(key) in subjects]
    done: list[RepairedAttachment] = []
    laid_down = False
    for start in range(0, max(len(keys), 1) if found.findings else 0, AT_A_TIME):
        some = [(it.network, it.container_id, it.ifname) for it in keys[start : start + AT_A_TIME]]
        body = msgspec.json.encode(RepairRequest(some, recreate))
        answer = msgspec.json.decode(ask(place, "repair", body, timeout=_PATIENCE), type=RepairAnswer)
        done += answer.repaired
        laid_down |= answer.table
        progress("repaired", start + len(some), len(keys))
    return RepairAnswer(laid_down, done)
