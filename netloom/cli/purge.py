"""Everything of netloom that is on this machine, removed. The agent must have ended.

What it finds it can prove to be ours: plans that the journal has recorded, links of our group, the table
with our comment, files as they were written down. Everything else stays, and is named. It may be repeated:
what stands in the way of one part does not keep the others from going, and the journal goes last.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from ..journal import Attachment, Damaged, Journal, Ledger, Unwritable
from ..kernel import Conflict, Incomplete, KernelError, Namespace, Plan, Scope, check, remove
from ..kernel.dataplane import Dataplane, Request
from ..kernel.netlink.nftables import read_table
from ..kernel.objects.base import Departure
from ..kernel.objects.link import link_names
from ..kernel.objects.nft import OWNER
from ..kernel.plan import depart
from ..networks import names, table
from ..networks.attachment import readable_plan, remnants_of
from ..ops.node.install import PLUGIN, RECEIPT, receipt
from ..ops.node.kept_networks import STORE
from ..ops.node.orphan_table import FILE as ORPHANS
from ..ops.node.ownership import another_at, identity_of
from ..ops.node.presence import boot_id, namespace_of
from .agent_process import Place
from .cni.target import plugin_dirs
from .journal import journal_path
from .purge_directories import remove_unused
from .purge_files import Files
from .purge_namespaces import remove_namespaces
from .purge_networks import Networks
from .purge_results import remove_lock, remove_results
from .purged import Kept, Purged
from .result_owners import Owners, owners

# As many links as go together well.
_AT_A_TIME = 64
_PATIENCE = 60.0
_STATE = (
    "journal.db-wal", "journal.db-shm", "journal.db", "journal.db.lock", "agent.log", "agent.log.1",
    STORE, ORPHANS, RECEIPT,
)  # fmt: skip
# Copies that were kept before a migration and before an import, those of a journal that was removed, and
# what one that was cut off has left.
_COPIES = re.compile(
    r"journal\.db\.(backup|replaced|rescued)-\d+(-wal|-shm)?"
    r"|\.journal\.db.*\.(netloom-)?new(-journal|-wal|-shm)?"
)
_INTENTS = (".del", ".unreadable")


def purge(place: Place, conf_dir: str, cache_dir: str) -> Purged:
    done = Purged([], [], [], [])
    networks = Networks(conf_dir, done)
    files = Files(place.state_dir, conf_dir, done)
    plugins = [*files.plugins, *(os.path.join(it, PLUGIN) for it in plugin_dirs())]
    files.remove_networks()
    done.kept += networks.kept_beside(done.kept)
    with Namespace.own() as host:
        another = another_at(host, place.state_dir, identity_of(journal_path(place.state_dir)))
        # A journal that was copied there lists containers that are now the other agent's.
        results = [] if another else [remove_results(cache_dir, _attachments(place, done))]
        for removed, kept in (*results, remove_namespaces(cache_dir)):
            done.removed += removed
            done.kept += kept
        if another is None:
            _links(host, done)
            _table(host, done)
            _own_addresses(host, done)
        else:
            done.kept.append(Kept("nft table, links", another.text()))
    if done.failed:
        return done  # the journal is needed to try again
    files.remove_others()
    if not any(map(os.path.lexists, plugins)):
        done.warnings += networks.warnings()
    if done.failed:
        return done  # and so is what tells which files are ours
    _unused(place, cache_dir, done)
    _socket(place, done)
    _state(place, done, files)
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


def _attachments(place: Place, done: Purged) -> Owners:
    """What the journal knew of them before they went."""
    path = journal_path(place.state_dir)
    if not os.path.exists(path):
        return Owners()
    try:
        with Journal(path) as journal, Dataplane() as dataplane:
            return _detached(journal, dataplane, done)
    except Damaged:
        # Links and table are found without it; rules of further interfaces are not.
        done.kept.append(Kept("rules inside of containers", f"{path} is damaged, and cannot tell of them"))
        return Owners()


def _detached(journal: Journal, dataplane: Dataplane, done: Purged) -> Owners:
    known = journal.ask(owners).result()
    rows = journal.ask(lambda ledger: list(ledger.attachments())).result()
    for start in range(0, len(rows), _AT_A_TIME):
        batch = rows[start : start + _AT_A_TIME]
        requests = [(row, _removal(journal, dataplane, row)) for row in batch]
        gone = [row for row, request in requests if _ended(row, request, done)]
        with suppress(Unwritable):  # as on a full disk: the journal goes in the end, with all that it says
            journal.change(partial(_forget, gone)).result()
    return known


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
    """Whichever version of us has laid it down; and the one for ARP that goes with it."""
    of = table.TABLE
    ours: list[str] = []
    for family in of.bodies:
        comment = read_table(host.netfilter, family, of.name)
        if comment is not None and comment.startswith(OWNER):
            ours.append(f"nft table {family} {of.name}")
        elif comment is not None:
            done.kept.append(Kept(f"nft table {family} {of.name}", "somebody else made it"))
    if not ours:
        return
    try:
        host.nft.run("".join(f"delete {it.removeprefix('nft ')}\n" for it in ours))
        done.removed += ours
    except KernelError as error:  # also if the library is gone already
        done.failed += [Kept(it, str(error)) for it in ours]


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


def _state(place: Place, done: Purged, files: Files) -> None:
    remembers = files.remember()
    listed = [it for it in _listed(place.state_dir) if not remembers or it != RECEIPT]
    copies = [it for it in listed if _COPIES.fullmatch(it)]
    ours = [*copies, *(it for it in _STATE if it in listed)]
    _remove_all(place.state_dir, ours, done, needed=(RECEIPT,) if remembers else ())


def _remove_all(directory: str, found: Iterable[str], done: Purged, needed: Sequence[str] = ()) -> None:
    """And the directory, unless something in it is needed."""
    for name in found:
        path = os.path.join(directory, name)
        try:
            os.unlink(path)
            done.removed.append(path)
        except OSError as cause:
            done.failed.append(Kept(path, cause.strerror or str(cause)))
    if not needed or _listed(directory) != list(needed):
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
