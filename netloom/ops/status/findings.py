"""Findings about a node, made from the data of its report."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from ... import __version__
from ...api.findings import Finding
from ...api.paths import Place, UntrustedPath, weakness_of
from ...api.protocol import Info
from ...ipam import Shortage
from ...journal import Ledger, empty
from ...networks.host import Lack
from ...networks.names import EDITION
from ..control.presence import Presence, mount_point
from ..errors import OperationFailed
from ..findings import networks
from ..findings.node import Wrong, disk_full, is_full, not_answering, troubled, untrusted, wrong
from ..findings.pools import exhausted, nearly_exhausted
from ..journals.reading import journal_path, ledger
from .document import NetworkStatus, PoolStatus, UnreadableNetwork

if TYPE_CHECKING:
    from ...kernel import Namespace
    from ..node.table_contents import Another


_MORE = "`netloom doctor` names each, with the next step"


def note_on_links(place: Place) -> str:
    """Returns a note on orphaned links; empty if there are none, or if the kernel cannot be asked."""
    count = _count(place)
    return f"note: {_counted(count)}, and containers may use them: {_MORE}" if count else ""


def warnings_of_links(place: Place) -> list[str]:
    """For `netloom up`: the agent that it starts leaves such links unchanged."""
    count = _count(place)
    if not count:
        return []
    them = "it" if count == 1 else "them"
    return [
        f"{_counted(count)}, as after a journal was lost: containers may use {them}; `netloom status` names "
        f"{them}, with the next step"
    ]


def _count(place: Place) -> int:
    from ...kernel import KernelError, Namespace  # a slow import that a healthy node does not need

    try:
        with Namespace.own() as host:
            return len(_orphans(place, host))
    except KernelError:
        return 0


def _counted(count: int) -> str:
    return f"{'1 link is' if count == 1 else f'{count} links are'} not in the journal (orphaned)"


def notes_on_ports(place: Place, wanted: int | None) -> list[str]:
    """Returns a note for each host port that leads to such a link: no other container can have it."""
    from ...kernel import KernelError, Namespace
    from ..node.orphans import ports_of, snapshot_of

    try:
        with Namespace.own() as host:
            orphans = _orphans(place, host)
            held = ports_of(snapshot_of(host, orphans, {}).kept) if orphans else []
    except KernelError:
        return []
    return [
        f"note: port {port} leads to {port.ip} port {port.port} by link {link}, which is not in the journal "
        f"(orphaned): {_MORE}"
        for port, link in held
        if wanted in (None, port.host_port)
    ]


def _orphans(place: Place, host: Namespace) -> Mapping[str, frozenset[bytes]]:
    """Reads the journal after the links, so that it has every link that is made meanwhile."""

    from ..node.orphans import orphans_at

    def survey(ask: Callable[[Ledger], list[str]]) -> list[str]:
        with ledger(place) as journal:
            return ask(journal or empty())

    return orphans_at(host, survey)


# A finding is left out if one of these, which includes it, was found.
_EFFECTS = {
    "journal-unwritable": ("disk-full", "journal-read-only"),
    "network-none": ("network-file-missing",),
}
# A finding comes after these, which are its cause or must be dealt with first: an agent without its journal
# starts with an empty one, and on the node of another agent it is refused.
_AFTER = {
    "agent-not-running": {"journal-gone", "journal-damaged", "node-of-another"},
    "journal-gone": {"node-of-another"},
    "node-address-missing": {"host-lacks"},
    "attachment-unrepaired": {"host-lacks"},
}


class Described(Struct, frozen=True):
    """A network of the report, what the host lacks for it, and its shortage of addresses."""

    status: NetworkStatus
    lacking: Lack | None
    shortage: Shortage | None


def of_presence(found: Presence, socket: str) -> Iterator[Finding]:
    if found.agent is None:
        subject = socket if found.process is None else f"process {found.process}"
        yield not_answering(found.code, found.why, subject, found.advice)


def of_agent(info: Info) -> Iterator[Finding]:
    yield from info.findings
    if not info.findings:  # an agent of an earlier version sends conditions without codes
        for text in info.troubles:
            yield troubled(text, info.state_dir)
    if (info.version, info.table) != (__version__, EDITION):
        version = "another build" if info.version == __version__ else f"version {info.version}"
        yield Finding(
            code="agent-outdated",
            severity="warning",
            subject=f"process {info.process}",
            text=f"the running agent is {version}, and this command is {__version__}",
            next="`netloom up` replaces it; containers keep their networks",
        )


def of_paths(state_dir: str, socket: str) -> Iterator[Finding]:
    """Reports directories that another user could change: the plugin and the next agent refuse them."""
    directory = os.path.dirname(socket)
    for it, what in ((directory, "the directory of the socket"), (state_dir, "the state directory")):
        weak = weakness_of(it)
        if weak is not None:
            yield untrusted(it, str(UntrustedPath(what, weak)), weak.remedy)


def of_another(owner: Another, state_dir: str) -> Finding:
    return Finding(
        code="node-of-another", text=owner.text(), next=owner.advice(state_dir), subject=owner.state_dir
    )


def of_copies(state_dir: str, orphans: Collection[str]) -> Iterator[Finding]:
    """Reports the newest copy of the journal that has some of the orphaned links."""
    from ...journal import lost

    path = journal_path(state_dir)
    found = lost.newest_with(path, orphans) if orphans else None
    if found is not None:
        copy, known = found
        links = "link that is" if len(orphans) == 1 else "links that are"
        yield Finding(
            code="journal-restorable",
            severity="warning",
            subject=copy,
            text=f"{copy} is a copy of the journal that has {known} of {len(orphans)} {links} not in it",
            next=f"`netloom down`, `netloom journal restore {copy}`, `netloom up`",
        )


def of_journal(error: OperationFailed, state_dir: str) -> Finding:
    if error.code == "agent-of-other-state":
        return Finding(code="agent-of-other-state", text=str(error), next=error.advice)
    return wrong(cast(Wrong, error.code), str(error), journal_path(state_dir), error.advice)


def of_disk(state_dir: str) -> Iterator[Finding]:
    """Reports that the journal's disk is full or read-only. It writes nothing to find out."""
    if is_full(state_dir):
        yield disk_full(state_dir)
    path = journal_path(state_dir)
    for it in (path, state_dir):
        if os.path.exists(it) and not os.access(it, os.W_OK):
            yield _read_only(it, state_dir)
            return


def _read_only(path: str, state_dir: str) -> Finding:
    if os.statvfs(state_dir).f_flag & os.ST_RDONLY:
        text = f"the disk of {state_dir} is mounted read-only: the agent cannot write the journal"
        remedy = f"`mount -o remount,rw {mount_point(state_dir)}`; if the kernel did it, `dmesg` says why"
    else:
        text = f"not even root can write {path}: it may be immutable"
        remedy = f"`chattr -i {path}`, and check its permissions"
    return wrong("journal-read-only", text, path, remedy)


def of_networks(
    described: Sequence[Described], unreadable: Sequence[UnreadableNetwork], directory: str
) -> Iterator[Finding]:
    for it in described:
        status = it.status
        pools = [pool.cidr for pool in status.pools]
        if status.error:
            yield networks.broken(status.path, status.error, status.name)
        elif it.lacking is not None:
            yield networks.host_lacks(status.name, it.lacking)
        elif it.shortage is not None:
            yield exhausted(status.name, status.path, pools, it.shortage)
        else:
            for used in used_by_family(status.pools):
                nearly = nearly_exhausted(status.name, status.path, pools, used)
                if nearly is not None:
                    yield nearly
    for file in unreadable:
        yield networks.broken(file.path, file.error)
    if not described and not unreadable:
        yield networks.none_configured(directory)


def used_by_family(pools: Iterable[PoolStatus]) -> list[list[tuple[str, int, int]]]:
    """Returns CIDR, assignable and held addresses of each pool, of IPv6 and of IPv4."""
    listed = [(it.cidr, it.capacity - (it.host or 0), (it.held or 0) + (it.orphaned or 0)) for it in pools]
    return [[it for it in listed if (":" in it[0]) is is_ipv6] for is_ipv6 in (True, False)]


def of_intents(count: int, directory: str, has_agent: bool) -> Iterator[Finding]:
    """Reports queued DELs. Under an agent, they are those that it could not do; its log says why."""
    if count:
        from ..findings.kernel import queued_dels

        yield queued_dels(count, directory, has_agent=has_agent)


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """Sorts errors and causes first, and leaves out duplicates and findings that others include."""
    listed: list[Finding] = []
    for it in found:
        if not any((it.code, it.subject) == (known.code, known.subject) for known in listed):
            listed.append(it)
    codes = {it.code for it in listed}
    kept = [it for it in listed if not codes & set(_EFFECTS.get(it.code, ()))]
    return sorted(kept, key=lambda it: (it.severity != "error", len(codes & _AFTER.get(it.code, set()))))
