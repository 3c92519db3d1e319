"""What `netloom check` compares, and how it asks for a repair."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from ..api.findings import Finding
from ..api.repair import AT_A_TIME, Answer, Repaired, Wish
from ..cni import AttachmentKey, CNIError
from ..ipam import Pool
from ..journal import Attachment, Ledger
from ..kernel import Namespace, NftElement
from ..networks.attachment import readable_plan
from ..ops.audit.audit import Plans, audit, plans_of
from ..ops.audit.bulk_check import as_planned
from ..ops.health.attachments import foreign_address
from ..ops.node import table_contents as contents
from ..ops.node.networks import node_networks
from ..ops.node.presence import namespace_of
from .agent_process import Place, holder
from .asking import ask
from .circumstances import without_agent, without_stale
from .failure import CommandFailed
from .journal import copy_of_journal, reading
from .live import findings_of, findings_of_table, foreign_addresses, look_at
from .new_links import advised
from .patience import MOMENTS, Marks, is_same, marks
from .place import intents_dir
from .progress import Progress
from .queued import queued
from .quoting import for_shell
from .subjects import rows_of

# For as many attachments as are asked for at a time: far longer than it takes.
_PATIENCE = 60.0


class Looked(NamedTuple):
    """`is_served` is whether an agent is at work, which may be the reason for what was found."""

    keys: list[AttachmentKey]
    findings: list[Finding]
    is_served: bool
    marks: Marks


def look_patiently(args: argparse.Namespace) -> Looked:
    """What is still found a moment later, and another one, if an agent is at work."""
    found = look(args)
    for moment in MOMENTS if found.is_served else ():
        if not found.findings:
            break
        time.sleep(moment)
        again = look(args, {it.subject for it in found.findings})
        found = again._replace(
            findings=[
                it
                for it in found.findings
                if it in again.findings and is_same(it.subject, found.marks, again.marks)
            ]
        )
    return found


def look(args: argparse.Namespace, only: Collection[str] | None = None) -> Looked:
    """`only` are the attachments that are looked at once more: what was fine a moment ago need not be."""
    ledger = copy_of_journal(args)
    is_served = holder(Place(args.state_dir, args.socket)) is not None
    if ledger is None:
        if args.name is not None:
            raise _unknown(args.name)
        return Looked([], [], is_served, {})
    with reading(args), Namespace.own() as host:
        glance = _Glance(host, only)
        if args.name is None:
            findings = advised(audit(ledger, host, _pools(args), glance=glance), glance.others, host)
            findings += [it for row in glance.others for it in _foreign(row)]
        else:
            rows = _meant(args, ledger)
            glance(rows, plans_of(rows), contents.there(host))
            findings = findings_of_table(host)
            findings += [it for row in glance.others for it in findings_of(row, look_at(row, host))]
        keys = [row.key for row in glance.rows]
        findings = without_stale(findings, glance.others, queued(intents_dir(args)))
        if not is_served:
            findings = without_agent(findings)
        return Looked(keys, findings, is_served, marks(glance.rows, host))


class _Glance:
    """Tells those that are as planned, and remembers the others. Of many, it shows how far it is."""

    def __init__(self, host: Namespace, only: Collection[str] | None) -> None:
        self._host = host
        self._only = only
        self.rows: Sequence[Attachment] = ()
        self.others: Sequence[Attachment] = ()

    def __call__(
        self, rows: Sequence[Attachment], plans: Plans, elements: Sequence[NftElement]
    ) -> Collection[int]:
        if self._only is None:
            with Progress("compared") as progress:
                fine = as_planned(rows, plans, self._host, elements, progress.tell)
        else:
            fine = frozenset(row.id for row in rows if str(row.key) not in self._only)
        self.rows, self.others = rows, [row for row in rows if row.id not in fine]
        return fine


def _meant(args: argparse.Namespace, ledger: Ledger) -> list[Attachment]:
    of_network = [row for row in ledger.attachments() if row.network == args.name]
    if of_network:
        return of_network
    rows = rows_of(args, ledger, args.name)
    if not rows and args.name not in _configured(args):
        raise _unknown(args.name)
    return rows


def _unknown(name: str) -> CommandFailed:
    return CommandFailed(
        f"neither a network nor anything that is attached is named {name!r}",
        f"`netloom explain {for_shell(name)}` tells what became of it; `netloom ls` lists what is attached",
        code="not-attached",
    )


def _configured(args: argparse.Namespace) -> set[str]:
    try:
        return {it.name for it in node_networks(args.conf_dir)}
    except CNIError:
        return set()


def _pools(args: argparse.Namespace) -> list[Pool]:
    """One that several networks share is counted once."""
    try:
        networks = [it.network for it in node_networks(args.conf_dir)]
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


def repaired(args: argparse.Namespace, found: Looked) -> Answer:
    """What the agent did about what was found. Some at a time, so that nobody waits without end."""
    subjects = {it.subject for it in found.findings}
    keys = [key for key in found.keys if str(key) in subjects]
    done: list[Repaired] = []
    laid_down = False
    with Progress("repaired") as progress:
        for start in range(0, max(len(keys), 1) if found.findings else 0, AT_A_TIME):
            some = [(it.network, it.container_id, it.ifname) for it in keys[start : start + AT_A_TIME]]
            body = msgspec.json.encode(Wish(some, args.recreate))
            answer = msgspec.json.decode(ask(args, "repair", body, timeout=_PATIENCE), type=Answer)
            done += answer.repaired
            laid_down |= answer.table
            progress.tell(start + len(some), len(keys))
    return Answer(laid_down, done)
