"""Removes everything of netloom from this machine. The agent must have ended."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from ...api.paths import JOURNAL, RECEIPT, Place
from ...cni.cache import Cache
from ...journal import Attachment, Damaged, Journal, Ledger, Unwritable
from ...kernel import Conflict, Incomplete, KernelError, Namespace, Plan, Scope, check, remove
from ...kernel.dataplane import Dataplane, DataplaneRequest
from ...kernel.netlink.nftables import read_table
from ...kernel.objects.base import LinkDeletion
from ...kernel.objects.link import link_names
from ...kernel.objects.nft import OWNER
from ...kernel.plan import depart
from ...networks import names, table
from ...networks.attachment import readable_plan, remnants_of
from ...networks.modes import UnknownMode
from ..cni_environment import plugin_dirs
from ..connectivity import namespaces
from ..control import units as service_manager
from ..control.process import holder
from ..control.units import SERVICE, SOCKET
from ..install.service import is_used
from ..node.install import PLUGIN, receipt
from ..node.namespaces import boot_id, namespace_of
from ..node.table_contents import another_at, identity_of
from ..runtimes.result_owners import Owners, owners
from .files import Files, Kept, Networks, Purged, remove_lock, remove_results, remove_unused, results


def stop_service(place: Place) -> int | None:
    """Stops the agent's service. Returns the process that was stopped; None if no service runs the agent."""
    process = holder(place)
    unit = None if process is None else service_manager.unit_of(process)
    ours = [SOCKET, SERVICE] if is_used(place.state_dir) else []
    units = [*ours, *([unit] if unit is not None and unit not in ours else [])]
    if not units:
        return None
    service_manager.stop(units)
    return process if unit is not None else None


def disable_service(place: Place) -> bool:
    """Disables our service, so that it does not start at boot. Returns whether there was one."""
    if not is_used(place.state_dir):
        return False
    service_manager.systemctl("disable", SOCKET, SERVICE)
    return True


def forget_service() -> None:
    """Makes systemd forget the units, whose files were removed."""
    service_manager.systemctl("daemon-reload")


def remove_namespaces(cache_dir: str) -> tuple[list[str], list[Kept]]:
    """Removes namespaces of `netloom connectivity`. Returns what was removed, and what was kept and why.

    Call it after `remove_results`: a namespace with a cached result is kept.
    """
    attached = {it.container_id: it for it in results(Cache(cache_dir))}
    removed: list[str] = []
    kept: list[Kept] = []
    for name in [*_kept(), *namespaces.leaked()]:
        what, it = f"namespace {name}", attached.get(name)
        if it is not None:
            undo = f"`netloom cni del {it.network} {it.netns} --container-id {name} -i {it.ifname}`"
            kept.append(Kept(what, f"it is attached to {it.network}; run {undo}, then `ip netns del {name}`"))
            continue
        try:
            namespaces.remove(name)
            removed.append(what)
        except OSError as cause:
            kept.append(Kept(what, cause.strerror or str(cause)))
    return removed, kept


def _kept() -> list[str]:
    try:
        return sorted(it for it in os.listdir(namespaces.DIRECTORY) if it.startswith(namespaces.KEPT_PREFIX))
    except OSError:
        return []


# How many attachments are removed at the same time.
_AT_A_TIME = 64
_PATIENCE = 60.0
# Copies from before a migration or an import, copies of a removed journal, and the remains of an interrupted
# copy.
_COPIES = re.compile(
    r"JOURNAL\.(backup|replaced|rescued)-\d+(-wal|-shm)?"
    r"|\.JOURNAL.*\.(netloom-)?new(-journal|-wal|-shm)?".replace("JOURNAL", re.escape(JOURNAL))
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
        another = another_at(host, place.state_dir, identity_of(place.journal))
        # A copied journal lists containers that are now the other agent's.
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
        return done  # and so is the receipt
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
    """Removes all attachments in the journal. Returns what the journal knew of their owners."""
    path = place.journal
    if not os.path.exists(path):
        return Owners()
    try:
        with Journal(path) as journal, Dataplane() as dataplane:
            return _detached(journal, dataplane, done)
    except Damaged:
        # Links and table are found without the journal; rules of further interfaces are not.
        done.kept.append(Kept("rules inside of containers", f"{path}, which lists them, is damaged"))
        return Owners()


def _detached(journal: Journal, dataplane: Dataplane, done: Purged) -> Owners:
    known = journal.ask(owners).result()
    rows = journal.ask(lambda ledger: list(ledger.attachments())).result()
    for start in range(0, len(rows), _AT_A_TIME):
        batch = rows[start : start + _AT_A_TIME]
        requests = [(row, _removal(journal, dataplane, row)) for row in batch]
        gone = [row for row, request in requests if _ended(row, request, done)]
        with suppress(Unwritable):  # as on a full disk; the journal is removed at the end anyway
            journal.change(partial(_forget, gone)).result()
    return known


def _unused(place: Place, cache_dir: str, done: Purged) -> None:
    """Removes what is shared with other programs, if none of them uses it."""
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


def _removal(journal: Journal, dataplane: Dataplane, row: Attachment) -> DataplaneRequest[None] | None:
    """Begins to remove an attachment. None if it is from an earlier boot: the kernel has nothing of it."""
    if row.boot_id != boot_id():
        return None
    plan = readable_plan(row)
    if plan is None:
        try:
            plan = journal.ask(lambda ledger: remnants_of(ledger, row)).result()
        except UnknownMode:
            return None  # its link is found without the journal
    namespace = namespace_of(row)
    try:
        return dataplane.remove(plan, namespace, timeout=_PATIENCE)
    finally:
        if namespace is not None:
            namespace.close()


def _ended(row: Attachment, request: DataplaneRequest[None] | None, done: Purged) -> bool:
    """Waits for a removal and notes its result. Returns whether nothing of ours remains."""
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
    """Removes our links that are in no attachment."""
    for name, entry in sorted(link_names(host).items()):
        if names.host_link_of(name) is None:
            continue
        try:
            depart([LinkDeletion(host, entry.index, f"link {name}")])
            done.removed.append(f"link {name}")
        except KernelError as error:
            done.failed.append(Kept(f"link {name}", str(error)))


def _table(host: Namespace, done: Purged) -> None:
    """Removes our nft tables, including the one for ARP, of whatever version."""
    of = table.TABLE
    ours: list[str] = []
    for family in of.bodies:
        comment = read_table(host.netfilter, family, of.name)
        if comment is not None and comment.startswith(OWNER):
            ours.append(f"nft table {family} {of.name}")
        elif comment is not None:
            done.kept.append(Kept(f"nft table {family} {of.name}", "netloom did not create it"))
    if not ours:
        return
    try:
        host.nft.run("".join(f"delete {it.removeprefix('nft ')}\n" for it in ours))
        done.removed += ours
    except KernelError as error:  # also if the library is not installed any more
        done.failed += [Kept(it, str(error)) for it in ours]


def _socket(place: Place, done: Purged) -> None:
    """Removes the agent's socket, and the DELs that wait beside it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISSOCK(os.stat(place.socket, follow_symlinks=False).st_mode):
            os.unlink(place.socket)
            done.removed.append(place.socket)
    found = [it for it in _listed(place.intents) if it.endswith(_INTENTS)]
    _remove_all(place.intents, found, done)
    _remove_directory(os.path.dirname(place.socket), done)


def _state(place: Place, done: Purged, files: Files) -> None:
    remembers = files.remember()
    listed = [it for it in _listed(place.state_dir) if not remembers or it != RECEIPT]
    copies = [it for it in listed if _COPIES.fullmatch(it)]
    ours = [*copies, *(it for it in map(os.path.basename, place.state_files) if it in listed)]
    _remove_all(place.state_dir, ours, done, needed=(RECEIPT,) if remembers else ())


def _remove_all(directory: str, found: Iterable[str], done: Purged, needed: Sequence[str] = ()) -> None:
    """Removes files and then their directory, unless something in it is needed."""
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
    """Removes a directory, unless it holds other files."""
    others = _listed(directory)
    try:
        os.rmdir(directory)
        done.removed.append(directory)
    except FileNotFoundError:
        return
    except OSError as cause:
        why = f"it holds other files: {', '.join(others[:3])}" if others else cause.strerror
        done.kept.append(Kept(directory, why or str(cause)))


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
