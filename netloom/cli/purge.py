"""Everything of netloom that is on this machine, removed. The agent must have ended.

What it finds it can prove to be ours: plans that the journal has recorded, links of our group, the table
with our comment, files as they were written down. Everything else stays, and is named. It may be repeated:
what stands in the way of one part does not keep the others from going, and the journal goes last.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from ..agent.install import receipt, take_away
from ..agent.networks import node_networks
from ..agent.node import boot_id, namespace_of
from ..agent.planned import readable_plan, remnants_of
from ..cni import AttachmentKey
from ..journal import Attachment, Damaged, Journal, Ledger
from ..kernel import Conflict, Incomplete, KernelError, Namespace, Plan, Scope, check, remove
from ..kernel.dataplane import Dataplane, Request
from ..kernel.netlink.nftables import read_table
from ..kernel.objects.base import Departure
from ..kernel.objects.link import link_names
from ..kernel.objects.nft import OWNER
from ..kernel.plan import depart
from ..modes import names, table
from .agent_process import Place
from .journal import journal_path
from .purge_directories import remove_unused
from .purge_results import remove_lock, remove_results
from .purged import Kept, Purged

# As many links as go together well.
_AT_A_TIME = 64
_PATIENCE = 60.0
_STATE = (
    "journal.db-wal", "journal.db-shm", "journal.db", "journal.db.lock", "agent.log", "agent.log.1",
    "installed.json",
)  # fmt: skip
# Copies that were kept before a migration and before an import, and what one that was cut off has left.
_COPIES = re.compile(r"journal\.db\.(backup|replaced)-\d+|\.journal\.db.*\.new")
_INTENTS = (".del", ".unreadable")


def purge(place: Place, conf_dir: str, cache_dir: str) -> Purged:
    done = Purged([], [], [])
    networks = node_networks(conf_dir)
    # First, so that no runtime begins to use what is about to go.
    _files(place, done, of_networks=True)
    left = [it for it in networks if os.path.lexists(it.path)]
    for network in left:
        if not any(it.what == network.path for it in done.kept):
            done.kept.append(Kept(network.path, "`netloom up` did not write it"))
    gone = _attachments(place, done)
    _results(cache_dir, gone, {it.name for it in networks} - {it.name for it in left}, done)
    with Namespace.own() as host:
        _links(host, done)
        _table(host, done)
        _own_addresses(host, done)
    if done.failed:
        return done  # the journal is needed to try again
    _files(place, done, of_networks=False)
    _unused(place, cache_dir, done)
    _socket(place, done)
    _state(place, done)
    return done


def _own_addresses(host: Namespace, done: Purged) -> None:
    for route in table.OWN_ADDRESSES:
        plan, scope = Plan((route,)), Scope(host)
        try:
            if not check(plan, scope):
                remove(plan, scope)
                done.removed.append(route.label)
        except KernelError as error:
            done.failed.append(Kept(route.label, str(error)))


def _files(place: Place, done: Purged, *, of_networks: bool) -> None:
    known = receipt(place.state_dir)
    for path in known.files:
        if path.endswith(".conflist") == of_networks and os.path.lexists(path):
            why = take_away(path, known)
            _note(done, path, why)


def _note(done: Purged, what: str, why_kept: str | None) -> None:
    if why_kept is None:
        done.removed.append(what)
    else:
        done.kept.append(Kept(what, why_kept))


def _attachments(place: Place, done: Purged) -> set[AttachmentKey]:
    """Those of which nothing is left."""
    path = journal_path(place.state_dir)
    keys: set[AttachmentKey] = set()
    if not os.path.exists(path):
        return keys
    try:
        journal = Journal(path)
    except Damaged:
        # Links and table are found without it; rules of further interfaces are not.
        done.kept.append(Kept("rules inside of containers", f"{path} is damaged, and cannot tell of them"))
        return keys
    with journal, Dataplane() as dataplane:
        rows = journal.ask(lambda ledger: list(ledger.attachments())).result()
        for start in range(0, len(rows), _AT_A_TIME):
            batch = rows[start : start + _AT_A_TIME]
            requests = [(row, _removal(journal, dataplane, row)) for row in batch]
            gone = [row for row, request in requests if _ended(row, request, done)]
            journal.change(partial(_forget, gone)).result()
            keys |= {row.key for row in gone}
    return keys


def _results(cache_dir: str, gone: set[AttachmentKey], networks: set[str], done: Purged) -> None:
    removed, others = remove_results(cache_dir, gone, networks)
    done.removed += removed
    if others:
        what = f"{others} result{'' if others == 1 else 's'} in {cache_dir}/results"
        done.kept.append(Kept(what, "of runtimes, which remove them when they delete their containers"))


def _unused(place: Place, cache_dir: str, done: Purged) -> None:
    """What was made for others to use, too, and nobody uses."""
    removed, in_use = remove_lock(cache_dir)
    done.removed += removed
    if in_use is not None:
        done.kept.append(Kept(*in_use))
    removed, watched = remove_unused(receipt(place.state_dir).directories)
    done.removed += removed
    done.kept += [Kept(path, f"{who} watches it") for path, who in watched]


def _forget(rows: Iterable[Attachment], ledger: Ledger) -> None:
    for row in rows:
        ledger.forget(row.id, resting_since=None)


def _removal(journal: Journal, dataplane: Dataplane, row: Attachment) -> Request[None] | None:
    """None: what another boot has made went with it."""
    if row.boot_id != boot_id():
        return None
    plan = readable_plan(row)
    if plan is None:
        plan = journal.ask(lambda ledger: remnants_of(ledger, row)).result()
    namespace = namespace_of(row)
    try:
        return dataplane.remove(plan, namespace, timeout=_PATIENCE)
    finally:
        if namespace is not None:
            namespace.close()


def _ended(row: Attachment, request: Request[None] | None, done: Purged) -> bool:
    """Whether nothing of it is left."""
    what = f"attachment {'/'.join(row.key)}"
    errors: Iterable[KernelError] = ()
    try:
        if request is not None:
            request.result(_PATIENCE)
    except Incomplete as error:
        errors = error.errors
    except KernelError as error:
        errors = (error,)
    strange = [error for error in errors if isinstance(error, Conflict)]
    failed = [error for error in errors if not isinstance(error, Conflict)]
    done.kept += [Kept(what, f"something else is in its place: {error}") for error in strange]
    done.failed += [Kept(what, str(error)) for error in failed]
    if not failed:
        done.removed.append(what)
    return not failed


def _links(host: Namespace, done: Purged) -> None:
    """Those that no attachment knows of any more."""
    for name, entry in sorted(link_names(host).items()):
        if names.host_link_of(name) is None:
            continue
        try:
            depart([Departure(host, entry.index, f"link {name}")])
            done.removed.append(f"link {name}")
        except KernelError as error:
            done.failed.append(Kept(f"link {name}", str(error)))


def _table(host: Namespace, done: Purged) -> None:
    """Whichever version of us has laid it down."""
    of = table.TABLE
    comment = read_table(host.netfilter, of.family, of.name)
    if comment is None:
        return
    if not comment.startswith(OWNER):
        done.kept.append(Kept(of.label, "somebody else made it"))
        return
    try:
        host.nft.run(f"delete table {of.family} {of.name}")
        done.removed.append(of.label)
    except KernelError as error:  # also if the library is gone already
        done.failed.append(Kept(of.label, str(error)))


def _socket(place: Place, done: Purged) -> None:
    """Where the agent has listened, and the DELs that wait for it there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISSOCK(os.stat(place.socket, follow_symlinks=False).st_mode):
            os.unlink(place.socket)
            done.removed.append(place.socket)
    directory = os.path.dirname(place.socket)
    intents = os.path.join(directory, "intents")
    found = [it for it in _listed(intents) if it.endswith(_INTENTS)]
    _remove_all(intents, found, done)
    _remove_directory(directory, done)


def _state(place: Place, done: Purged) -> None:
    listed = _listed(place.state_dir)
    copies = [it for it in listed if _COPIES.fullmatch(it)]
    _remove_all(place.state_dir, [*copies, *(it for it in _STATE if it in listed)], done)


def _remove_all(directory: str, found: Iterable[str], done: Purged) -> None:
    for name in found:
        path = os.path.join(directory, name)
        try:
            os.unlink(path)
            done.removed.append(path)
        except OSError as cause:
            done.failed.append(Kept(path, cause.strerror or str(cause)))
    _remove_directory(directory, done)


def _remove_directory(directory: str, done: Purged) -> None:
    """With somebody else's files in it, it stays."""
    others = _listed(directory)
    try:
        os.rmdir(directory)
        done.removed.append(directory)
    except FileNotFoundError:
        return
    except OSError as cause:
        why = f"there is something else in it: {', '.join(others[:3])}" if others else cause.strerror
        done.kept.append(Kept(directory, why or str(cause)))


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
