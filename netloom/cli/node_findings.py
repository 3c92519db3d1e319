"""What is wrong with a node, from what its report has: each with a code, what it is about, and what to do."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .. import __version__
from ..api.findings import Finding
from ..api.info import Info
from ..api.trusted_path import UntrustedPath, weakness_of
from ..ipam import Shortage
from ..networks.edition import EDITION
from ..networks.host import Lack
from ..ops.health.pool_remedy import remedy_of
from ..ops.health.space import lack_of_space
from ..ops.node.networks import FILE
from .agent_presence import Presence, mount_point
from .failure import CommandFailed
from .journal import journal_path
from .node_document import NetworkStatus, PoolStatus, Unreadable

if TYPE_CHECKING:
    from ..kernel import Difference
    from ..ops.node.ownership import Another

# Of a pool: this much of it held, and it is nearly used up.
_NEARLY = 0.9
_SHOWN = 3
_MEND = "mend it (`netloom cni validate` checks it)"
_REPLACE = (
    ", or replace it: `netloom up --force` writes the last copy that worked, or a new network with the "
    "--pool and other options that you give"
)
_SPACE = "free space on that disk; the agent goes on by itself"
# Of several, these are told by the one before.
_EFFECTS = {
    "journal-unwritable": ("disk-full", "journal-read-only"),
    "network-none": ("network-file-missing",),
}
# An agent that is started without its journal begins with an empty one: what brings it back comes first.
_AFTER = {"agent-not-running": {"journal-gone", "journal-damaged"}}


class Described(Struct, frozen=True):
    """A network as the report has it; what the host lacks for it, and why it has no address left."""

    status: NetworkStatus
    lacking: Lack | None
    shortage: Shortage | None


def of_presence(found: Presence, socket: str) -> Iterator[Finding]:
    if found.agent is None:
        subject = socket if found.process is None else f"process {found.process}"
        yield Finding(code=found.code, text=found.why, next=found.advice, subject=subject)


def of_agent(info: Info) -> Iterator[Finding]:
    known = {it.text for it in info.findings}
    yield from info.findings
    for text in info.troubles:
        if text not in known:  # of an agent that knows no codes yet
            code = "agent-troubled" if info.has_journal else "journal-gone"
            yield Finding(code=code, text=text, next="do as the message says", subject=info.state_dir)
    if (info.version, info.table) != (__version__, EDITION):
        version = "another build" if info.version == __version__ else f"version {info.version}"
        yield Finding(
            code="agent-outdated",
            severity="warning",
            subject=f"process {info.process}",
            text=f"the agent that runs is {version}, and this command is {__version__}",
            next="`netloom up` replaces it; containers keep their networks",
        )


def of_table(differences: Iterable[Difference], name: str) -> Iterator[Finding]:
    listed = [str(it) for it in differences]
    if listed:
        yield Finding(
            code="table-broken",
            subject=name,
            text=f"netloom's table is not whole: {'; '.join(listed[:_SHOWN])}",
            next="`netloom up` starts an agent, which lays it down anew",
        )


def of_paths(state_dir: str, socket: str) -> Iterator[Finding]:
    """Directories that another user could change: the plugin and the next agent do without them."""
    directory = os.path.dirname(socket)
    for it, what in ((directory, "the directory of the socket"), (state_dir, "the state directory")):
        weak = weakness_of(it)
        if weak is not None:
            text = str(UntrustedPath(what, weak))
            yield Finding(code="path-untrusted", text=text, next=weak.remedy, subject=it)


def of_another(owner: Another, state_dir: str) -> Finding:
    return Finding(
        code="node-of-another", text=owner.text(), next=owner.advice(state_dir), subject=owner.state_dir
    )


def of_copies(state_dir: str, orphans: Collection[str]) -> Iterator[Finding]:
    """Of links that are not in the journal: the newest copy of it that knows some."""
    from ..journal import lost

    path = journal_path(state_dir)
    found = lost.newest_with(path, orphans) if orphans else None
    if found is not None:
        copy, known = found
        links = "link that is" if len(orphans) == 1 else "links that are"
        yield Finding(
            code="journal-restorable",
            severity="warning",
            subject=copy,
            text=f"{copy} is a copy of the journal that knows {known} of {len(orphans)} {links} not in it",
            next=f"`netloom down`, `netloom journal restore {copy}`, `netloom up`",
        )


def of_journal(error: CommandFailed, state_dir: str) -> Finding:
    subject = "" if error.code == "agent-of-other-state" else journal_path(state_dir)
    return Finding(code=error.code, text=str(error), next=error.advice, subject=subject)


def of_disk(state_dir: str) -> Iterator[Finding]:
    """Of the journal's disk: full, or not to be written to. Nothing is written to find out."""
    full = lack_of_space(state_dir)
    if full:
        yield Finding(code="disk-full", text=full, next=_SPACE, subject=state_dir)
    path = journal_path(state_dir)
    for it in (path, state_dir):
        if os.path.exists(it) and not os.access(it, os.W_OK):
            yield _read_only(it, state_dir)
            return


def _read_only(path: str, state_dir: str) -> Finding:
    if os.statvfs(state_dir).f_flag & os.ST_RDONLY:
        text = f"the disk of {state_dir} is mounted read-only: the journal takes no changes"
        remedy = f"`mount -o remount,rw {mount_point(state_dir)}`; if the kernel did it, `dmesg` tells why"
    else:
        text = f"{path} may not be written, not even by root: it may be immutable"
        remedy = f"`chattr -i {path}`, and look at its permissions"
    return Finding(code="journal-read-only", text=text, next=remedy, subject=path)


def of_networks(
    networks: Sequence[Described], unreadable: Sequence[Unreadable], directory: str
) -> Iterator[Finding]:
    for it in networks:
        if it.status.error:
            yield _broken(it.status.path, f"{it.status.name} cannot work: {it.status.error}")
        elif it.lacking is not None:
            yield Finding(
                code="host-lacks",
                subject=it.status.name,
                text=f"nothing can be attached to {it.status.name} now: {it.lacking.text}",
                next=it.lacking.next,
            )
        elif it.shortage is not None:
            text = f"nothing can be attached to {it.status.name} now: {it.shortage}"
            remedy = _remedy("pool-exhausted", it.status, rests=it.shortage.ready_in is not None)
            yield Finding(code="pool-exhausted", subject=it.status.name, text=text, next=remedy)
        else:
            yield from _nearly_exhausted(it.status)
    for file in unreadable:
        yield _broken(file.path, file.error)
    if not networks and not unreadable:
        yield Finding(
            code="network-none",
            severity="warning",
            subject=directory,
            text=f"no network of netloom is configured in {directory}",
            next="`netloom up` writes one",
        )


def _broken(path: str, error: str) -> Finding:
    replace = _REPLACE if os.path.basename(path) == FILE and os.path.isfile(path) else ""
    return Finding(code="network-broken", text=f"{path}: {error}", next=f"{_MEND}{replace}", subject=path)


def _remedy(code: str, network: NetworkStatus, *, rests: bool = False) -> str:
    return remedy_of(code, network.name, network.path, [pool.cidr for pool in network.pools], rests=rests)


def _nearly_exhausted(network: NetworkStatus) -> Iterator[Finding]:
    for of_family in (_of_family(network.pools, ":"), _of_family(network.pools, ".")):
        capacity = sum(it.capacity - (it.host or 0) for it in of_family)
        held = sum((it.held or 0) + (it.orphaned or 0) for it in of_family)
        if capacity and held >= capacity * _NEARLY:
            names = ", ".join(it.cidr for it in of_family)
            yield Finding(
                code="pool-nearly-exhausted",
                severity="warning",
                subject=network.name,
                text=f"network {network.name} has few addresses left: {held} of {capacity} in {names} are "
                "held",
                next=_remedy("pool-nearly-exhausted", network),
            )


def _of_family(pools: Iterable[PoolStatus], mark: str) -> list[PoolStatus]:
    return [it for it in pools if mark in it.cidr.partition("/")[0]]


def of_intents(count: int, directory: str, has_agent: bool) -> Iterator[Finding]:
    """An agent does them at once; what it could not do stays, and its log tells why."""
    if count:
        yield Finding(
            code="queued-dels",
            severity="warning",
            subject=directory,
            text=f"{count} DEL{' waits' if count == 1 else 's wait'} for the agent",
            next="it does them within a second, unless something is in its way: its log tells"
            if has_agent
            else "the next agent does them before it serves: `netloom up`",
        )


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """Errors first; of causes and what only follows from them, the causes. Who says it first is heard."""
    listed: list[Finding] = []
    for it in found:
        if not any((it.code, it.subject) == (known.code, known.subject) for known in listed):
            listed.append(it)
    codes = {it.code for it in listed}
    kept = [it for it in listed if not codes & set(_EFFECTS.get(it.code, ()))]
    return sorted(
        kept, key=lambda it: (it.severity != "error", it.code in _AFTER and bool(codes & _AFTER[it.code]))
    )
