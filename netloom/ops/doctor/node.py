"""Checks of the node: what `netloom status` reports, and whether journal, pools and kernel agree."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import DEFAULT_STATE_DIR, intents_of
from ...journal import Attachment
from ...kernel import Address, KernelError, Namespace, Plan
from ...kernel.errors import ABSENT, Refused
from ...kernel.netlink import address, link
from ..audit import audit
from ..findings.attachments import foreign_address
from ..firewall.openings import CODE as FOREIGN_DROP
from ..inspect.attachment_state import advise_new_links, advise_up, without_stale
from ..inspect.listing import queued
from ..node import orphans
from ..node.namespaces import boot_id, namespace_of
from ..node.orphans import CODE as ORPHANED
from ..node.orphans import every_finding_of, findings_of_services, orphans_at
from .checks import Context
from .services import Holder, arguments, holders, numbers

# Other checks judge these again; the agent's judgement may be older.
_BY_OTHERS = frozenset({FOREIGN_DROP, "object-changed", "route-diverted"})
# While the journal cannot be read, it is unknown which links it has.
_LATER = "repair the journal first: then `netloom doctor` names each"


def check_node(context: Context) -> Iterable[Finding]:
    """Names every orphaned link, of which status names only the first few."""
    ledger = context.ledger
    found = [it for it in context.report.findings if it.code not in _BY_OTHERS]
    found += _incomplete(context)
    if all(it.subject for it in found if it.code == ORPHANED):
        return found
    if ledger is None:
        return [it if it.subject or it.code != ORPHANED else replace(it, next=_LATER) for it in found]
    others = [it for it in found if it.code != ORPHANED]
    return [*others, *every_finding_of(orphans_at(context.host, lambda ask: ask(ledger)))]


def _incomplete(context: Context) -> Iterable[Finding]:
    """A running agent reports these; without one, the records of the last agent do."""
    ledger = context.ledger
    if context.report.agent is not None or ledger is None:
        return []
    kept = orphans.read(context.place.state_dir, boot_id())
    unknown = {link: it.unknown for link, it in kept.items() if it.unknown}
    return findings_of_services(orphans_at(context.host, lambda ask: ask(ledger)), unknown) if unknown else []


# Programs of an agent that was started by the command, or by `netloom up`.
_COMMANDS = ("netloom", "netloom.cli.main")


def check_agents(context: Context) -> Iterator[Finding]:
    running = [process for process in numbers() if _is_agent(process)]
    here = os.stat("/proc/self/ns/net")
    beside = [process for process in running if _is_in(process, here)]
    if len(beside) < 2:
        return
    meant = context.report.agent.process if context.report.agent else context.report.silent
    shown = "; ".join(f"process {process} with its state in {_state_dir(process)}" for process in beside)
    for process in beside:
        if process != meant:
            state_dir = _state_dir(process)
            yield Finding(
                code="two-agents",
                subject=f"process {process}",
                text=f"{len(beside)} agents run in this network namespace: {shown}",
                next=f"stop the one that should not run: `netloom down --state-dir {state_dir}"
                f"{_socket_option(process)}`, or `kill {process}`",
            )


def _is_agent(process: int) -> bool:
    words = arguments(process)
    return any(
        os.path.basename(command) in _COMMANDS and verb == "agent" for command, verb in pairwise(words)
    )


def _is_in(process: int, namespace: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{process}/ns/net"), namespace)
    except OSError:
        return False


def _state_dir(process: int) -> str:
    return _option(process, "--state-dir", "NETLOOM_STATE_DIR") or DEFAULT_STATE_DIR


def _socket_option(process: int) -> str:
    socket = _option(process, "--socket", "NETLOOM_SOCKET")
    return f" --socket {socket}" if socket else ""


def _option(process: int, option: str, variable: str) -> str:
    words = arguments(process)
    for number, word in enumerate(words):
        if word == option and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            environment = dict(
                entry.decode(errors="replace").partition("=")[::2] for entry in file.read().split(b"\0")
            )
    except OSError:
        return ""
    return environment.get(variable, "")


# Seconds to search for processes that hold namespaces: a machine may have very many.
_PATIENCE = 1.0
# Fixes that a running agent can do at once.
_BY_AGENT = {
    "netns-stale": "let the agent release it now",
    "attachment-unfinished": "let the agent finish it now",
    "element-orphaned": "let the agent delete it now",
    "object-missing": "let the agent repair it now",
}


def check_attachments(context: Context) -> Iterator[Finding]:
    if context.ledger is None:
        return
    context.notify(f"comparing {len(context.attachments)} attachments with the kernel")
    found = advise_new_links(
        audit(context.ledger, context.host, context.pools), context.attachments, context.host
    )
    found = without_stale(found, context.attachments, queued(intents_of(context.place.socket)))
    if not context.report.agent:
        found = advise_up(found)
    busy = {it.subject for it in found if it.code == "netns-busy"}
    inodes = {str(row.key): row.netns_inode for row in context.attachments if str(row.key) in busy}
    held_by = holders(set(inodes.values()), time.monotonic() + _PATIENCE) if busy else {}
    for it in found:
        if it.code == "netns-busy":
            yield _named(it, held_by.get(inodes[it.subject], []))
        else:
            yield replace(it, fix=_BY_AGENT.get(it.code, "")) if context.report.agent else it


def _named(busy: Finding, found: list[Holder]) -> Finding:
    if not found:
        return replace(
            busy,
            next="no process was found: a socket that was opened in it, or a process that is not visible "
            "from here, keeps it alive; restart the container's runtime, or delete the container with it",
        )
    return replace(
        busy,
        text=f"{busy.text}: {'; '.join(map(str, found))}",
        next="; ".join(dict.fromkeys(it.advice for it in found)),
    )


_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_GLOBAL = 0
_SOME = 200


def check_addresses(context: Context) -> Iterator[Finding]:
    rows = [row for row in context.attachments if row.id in context.plans and row.state == "committed"]
    for number, row in enumerate(rows):
        if number % _SOME == 0 and number:
            context.notify(f"addresses of containers: {number} of {len(rows)}")
        yield from _in_container(row, context.plans[row.id])
    yield from _on_host(context.host, {row.host_link: row for row in rows})


def _in_container(row: Attachment, plan: Plan) -> Iterator[Finding]:
    namespace = namespace_of(row)
    if namespace is None:
        return
    planned = {it.address for it in plan.objects if isinstance(it, Address) and it.on == "attachment"}
    links = {it.link for it in plan.objects if isinstance(it, Address) and it.on == "attachment"}
    with namespace:
        try:
            for name in links:
                index = namespace.route.index(name)
                for found in _addresses(namespace, index):
                    if found not in planned:
                        yield foreign_address(row, found, name)
        except KernelError:
            return  # the link is missing, which the audit reports


def _on_host(host: Namespace, rows: dict[str, Attachment]) -> Iterator[Finding]:
    """Lists addresses with one request, since the host's ends should have none."""
    for index, found in _all_addresses(host):
        try:
            answer = host.route.ask(link.GET, link.get(index))
        except Refused as refused:
            if refused.errno in ABSENT:
                continue
            raise
        row = rows.get(link.decode(answer).name) if answer is not None else None
        if row is not None:
            yield foreign_address(row, found, row.host_link, on_host=True)


def _addresses(namespace: Namespace, index: int) -> list[str]:
    return [found for at, found in _all_addresses(namespace, index) if at == index]


def _all_addresses(namespace: Namespace, index: int = 0) -> Iterable[tuple[int, str]]:
    """Lists addresses of one link, or of all. It ignores link-local ones, which the kernel manages."""
    for family in _FAMILIES:
        for payload in namespace.route.dump(address.GET, address.of_link(index, family)):
            found = address.decode(payload)
            if found.scope == _GLOBAL:
                yield found.index, f"{found.address}/{found.prefix}"
