"""What `netloom check` compares, and how it asks for a repair."""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

import msgspec

from ..agent.audit import audit
from ..agent.networks import node_networks
from ..agent.node import namespace_of
from ..agent.planned import readable_plan
from ..agent.repairing import AT_A_TIME, Answer, Repaired, Wish
from ..cni import AttachmentKey, CNIError
from ..findings import Finding
from ..ipam import Pool
from ..journal import Attachment, Ledger
from ..kernel import Namespace
from .agent_process import Place, holder
from .asking import ask
from .failure import CommandFailed
from .journal import copy_of_journal
from .live import findings_of, findings_of_table, foreign, foreign_addresses, look_at
from .subjects import rows_of

# For as many attachments as are asked for at a time: far longer than it takes.
_PATIENCE = 60.0


class Looked(NamedTuple):
    """`is_served` is whether an agent is at work, which may be the reason for what was found."""

    keys: list[AttachmentKey]
    findings: list[Finding]
    is_served: bool


def look(args: argparse.Namespace) -> Looked:
    ledger = copy_of_journal(args)
    is_served = holder(Place(args.state_dir, args.socket)) is not None
    if ledger is None:
        if args.name is not None:
            raise _unknown(args.name)
        return Looked([], [], is_served)
    with Namespace.own() as host:
        if args.name is None:
            rows = list(ledger.attachments())
            findings = [*audit(ledger, host, _pools(args)), *(it for row in rows for it in _foreign(row))]
            return Looked([row.key for row in rows], findings, is_served)
        rows = _meant(args, ledger)
        findings = [it for row in rows for it in findings_of(row, look_at(row, host))]
        return Looked([row.key for row in rows], [*findings_of_table(host), *findings], is_served)


def _meant(args: argparse.Namespace, ledger: Ledger) -> list[Attachment]:
    of_network = [row for row in ledger.attachments() if row.network == args.name]
    if of_network:
        return of_network
    rows = rows_of(ledger, args.name)
    if not rows and args.name not in _configured(args):
        raise _unknown(args.name)
    return rows


def _unknown(name: str) -> CommandFailed:
    return CommandFailed(
        f"neither a network nor anything that is attached is named {name!r}",
        f"`netloom explain {name}` tells what became of it; `netloom ls` lists what is attached",
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
        return [] if plan is None else [foreign(row, it) for it in foreign_addresses(plan, namespace)]


def repaired(args: argparse.Namespace, found: Looked) -> Answer:
    """What the agent did about what was found. Some at a time, so that nobody waits without end."""
    subjects = {it.subject for it in found.findings}
    keys = [key for key in found.keys if str(key) in subjects]
    done: list[Repaired] = []
    laid_down = False
    for start in range(0, max(len(keys), 1) if found.findings else 0, AT_A_TIME):
        some = [(it.network, it.container_id, it.ifname) for it in keys[start : start + AT_A_TIME]]
        body = msgspec.json.encode(Wish(some, args.recreate))
        answer = msgspec.json.decode(ask(args, "repair", body, timeout=_PATIENCE), type=Answer)
        done += answer.repaired
        laid_down |= answer.table
        _tell_progress(start + len(some), len(keys))
    return Answer(laid_down, done)


def _tell_progress(done: int, of: int) -> None:
    """On a terminal, while it takes longer than one question."""
    if of > AT_A_TIME and sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" if done == of else f"\rcompared and repaired: {done} of {of} ")
        sys.stderr.flush()
