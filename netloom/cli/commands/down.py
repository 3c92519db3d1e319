"""Stop the agent. Containers keep their networks and can be deleted; new ones cannot be attached.

The plugin and the network configuration stay, since runtimes need both to delete containers. If systemd runs
the agent, the command stops its units; they start again at boot, or with `netloom up`.

With --purge, the command removes everything that belongs to netloom: attachments, which disconnects their
containers; the nft table; the network configuration; the plugin in every directory; the units that `netloom
up` installed; the journal, the socket and queued DELs; namespaces of `netloom connectivity --keep`; and
results in the CNI cache, if they are from `netloom cni` or their containers do not exist any more. It keeps a
result that a runtime needs to delete its container, and files that others have changed, and lists each. It
keeps settings of the kernel, since other software may need them: IP forwarding stays on, and links continue
to accept router advertisements (accept_ra is 2).

A purge also removes these directories if they are empty: the state directory (/var/lib/netloom), the socket's
directory (/run/netloom) with its intents, and directories that `netloom up` created, such as /etc/cni/net.d
and /opt/cni/bin, unless another process watches them, as containerd may. It removes the lock file of `netloom
cni` and of programs that use the library (netloom.lock in --cache-dir) unless a process holds the lock, and
then that directory and its results/ if they are empty.

examples:
  netloom down
  netloom down --purge
  netloom down --purge --yes --json
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from ...api.paths import Place
from ...api.text import printable_line
from ...cni import CNIError
from ...journal.file import checkpoint
from ...ops.advice import require_root
from ...ops.cni_environment import plugin_dirs
from ...ops.control.process import stop, undisturbed
from ...ops.errors import OperationFailed, UsageError
from ...ops.install.plugins import require_receipt
from ...ops.journals.reading import explained, ledger
from ...ops.purge.files import Kept, Purged
from ...ops.purge.lost_journal import LostJournal, Watched
from ...ops.purge.purge import disable_service, forget_service, stop_service
from ..arguments import add_conf_dir, add_json, add_place, place_of, seconds
from ..exit_status import FAILED
from ..terminal.output import complain, require_output, say
from ..terminal.tables import print_json
from .cni.target import add_cache_dir

if TYPE_CHECKING:
    from ...journal import Ledger

_NOTHING = "nothing of netloom was found: no agent, no journal, no network, no plugin"
_KEPT_ALIVE = "containers keep their networks; DELs are queued, and the next `netloom up` completes them"


class StoppedAgent(Struct, frozen=True, kw_only=True):
    """The agent that was stopped, if there was one."""

    change: Annotated[Literal["stopped", "not running"], Meta(description="whether an agent was running")]
    process: Annotated[int | None, Meta(description="its process ID; null if none was running")]


class Down(Struct, frozen=True, kw_only=True):
    """What `netloom down` did. Fields other than `agent` and `journal` exist only with `--purge`."""

    agent: Annotated[StoppedAgent, Meta(description="the process that served the plugin")]
    journal: Annotated[
        LostJournal | UnsetType,
        Meta(description="only if it was moved, removed, replaced or damaged: what the next agent will lack"),
    ] = UNSET
    removed: Annotated[list[str] | UnsetType, Meta(description="what was removed")] = UNSET
    kept: Annotated[list[Kept] | UnsetType, Meta(description="what was kept, since it is not netloom's")] = (
        UNSET
    )
    failed: Annotated[list[Kept] | UnsetType, Meta(description="what could not be removed")] = UNSET
    warnings: Annotated[list[str] | UnsetType, Meta(description="what an administrator has to do")] = UNSET


OUTPUT = Down


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--purge",
        action="store_true",
        help="uninstall: remove everything that belongs to netloom from this machine",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation of --purge")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=20.0,
        metavar="SECONDS",
        help="time limit for the agent to finish its operations and stop (default: 20)",
    )
    add_place(parser)
    add_conf_dir(parser)
    add_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("stopping the agent")
    place = Place(args.state_dir, args.socket)
    if args.purge and not args.yes and not _agreed(args):
        raise OperationFailed(
            "not confirmed; nothing was removed", "answer y, or pass --yes", code="not-agreed"
        )
    if args.purge:
        require_receipt(args.state_dir)
    with undisturbed(place, args.timeout):
        journal = None if args.purge else Watched(place)
        process = stop_service(place) or stop(place, args.timeout)
        purged = _purged(place, args) if args.purge else None
        lost = journal.lost() if journal else None
        if purged is None and lost is None:  # else the log does not belong to this file
            checkpoint(place.journal)
    if not args.json:
        _show(process, purged, lost, is_bare=process is None and not _is_installed(place, args))
    else:
        agent = StoppedAgent(change="not running" if process is None else "stopped", process=process)
        done = Down(agent=agent, journal=UNSET if lost is None else lost)
        if purged is not None:
            done = Down(
                agent=agent,
                removed=purged.removed,
                kept=purged.kept,
                failed=purged.failed,
                warnings=purged.warnings,
            )
        print_json(to_builtins(done))
    return FAILED if purged is not None and purged.failed else 0


def _purged(place: Place, args: argparse.Namespace) -> Purged:
    from ...ops.purge.purge import purge

    of_service = disable_service(place)
    with explained():
        purged = purge(place, args.conf_dir, args.cache_dir)
    if of_service:
        forget_service()
    return purged


def _agreed(args: argparse.Namespace) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "not a terminal, cannot ask for confirmation: pass --yes",
            "`netloom status` shows what there is; `netloom down --purge --yes` removes it",
        )
    try:
        with ledger(place_of(args)) as journal:
            orphans = _count_orphans(journal)
            count = 0 if journal is None else sum(journal.count().values())
        attachments = f"{count} attachment{'' if count == 1 else 's'}"
        if orphans:
            links = "link that is" if orphans == 1 else "links that are"
            attachments += f" and of {orphans} {links} not in the journal (orphaned)"
    except OperationFailed:
        attachments = "all attachments (their number is unknown, since the journal cannot be read)"
    complain(
        f"This removes netloom from this machine, and with it the networks of {attachments}.",
        "Continue? [y/N]",
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _count_orphans(journal: Ledger | None) -> int:
    """Counts the links that are in no attachment, since containers may use them, too."""
    from ...journal import empty
    from ...kernel import KernelError, Namespace
    from ...ops.node.orphans import orphans_at

    try:
        with Namespace.own() as host:
            return len(orphans_at(host, lambda ask: ask(journal or empty())))
    except KernelError:  # the purge itself reports it
        return 0


def _is_installed(place: Place, args: argparse.Namespace) -> bool:
    """Whether anything exists that `netloom up` creates."""
    from ...ops.node.install import PLUGIN
    from ...ops.node.networks import found_in

    plugins = (os.path.join(directory, PLUGIN) for directory in plugin_dirs())
    paths = (place.journal, place.receipt, place.socket, *plugins)
    try:
        return any(map(os.path.lexists, paths)) or any(found_in(args.conf_dir))
    except CNIError:  # something exists that cannot be read
        return True


def _show(process: int | None, purged: Purged | None, lost: LostJournal | None, *, is_bare: bool) -> None:
    if purged is None and lost is None and is_bare:
        say(_NOTHING)
        return
    say("agent not running" if process is None else f"agent stopped: process {process}")
    if lost is not None:
        complain(*(printable_line(it) for it in (f"warning: {lost.warning()}", f"next:  {lost.advice()}")))
        return
    if purged is None:
        say(_KEPT_ALIVE)
        return
    say(*(printable_line(f"removed  {it}") for it in purged.removed))
    say(*(printable_line(f"kept     {it.what}: {it.why}") for it in purged.kept))
    if not purged.removed and not purged.failed:
        say("nothing else of netloom was found" if purged.kept else "nothing of netloom was found")
    complain(*(printable_line(f"warning: {it}") for it in purged.warnings))
    if purged.failed:
        complain(
            *(printable_line(f"error: {it.what}: {it.why}") for it in purged.failed),
            "next:  fix these causes and run the command again; it has kept what it needs for that",
        )
