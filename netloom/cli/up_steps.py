"""What `netloom up` does, in the order in which no runtime ever finds a network that cannot work.

Each file is written down as soon as it is there: so a run that is cut off has left nothing that nobody knows.
"""

from __future__ import annotations

import argparse
import os

from msgspec.structs import replace

from ..ops.node.install import EXECUTABLE, READABLE, Put, digest, put, receipt
from ..ops.node.kept_networks import Copy, copies, is_sound, keep_copy, missing, own_copy
from ..ops.node.network_files import NetworkFiles
from .agent_process import Place
from .agent_start import own_command
from .attached import networks_attached_of
from .conflist import Decision, Options, decide, is_as_written, values_of
from .output import say
from .receipts import install, restore, unwritable_state, write_receipt
from .units import rendered
from .up_agent import found_agent, in_background, is_of_another
from .up_host import usable_default_pools
from .up_plugins import FailedPlace, Unwritable, install_everywhere
from .up_report import Configured, FilePart, NetworkPart, PluginPart, Up
from .up_systemd import by_systemd, is_used, judge
from .views import table


def decided(args: argparse.Namespace) -> Decision:
    given = Options(
        network=args.network,
        pools=None if args.pools is None else tuple(args.pools),
        mtu=args.mtu,
        masquerade=args.masquerade,
        cni_version=args.cni_version,
    )
    known = receipt(args.state_dir)
    copy = own_copy(known, copies(args.state_dir))
    default_pools = usable_default_pools(args.mtu, force=args.force)
    return decide(args.conf_dir, given, known, force=args.force, default_pools=default_pools, copy=copy)


def done(args: argparse.Namespace, place: Place, plugin: bytes) -> tuple[Up, Decision]:
    """An agent that is replaced comes first: if it cannot be, the plugin of its version stays, too."""
    found = found_agent(place)
    replaces = found is not None and not args.no_agent and is_of_another(found.info)
    has_manager = not args.no_agent and (args.systemd or is_used(args.state_dir))
    # A path that cannot stand in a unit is found here, too.
    contents = rendered(place, own_command(place, args.conf_dir)) if has_manager else {}
    if has_manager:
        judge(place, found, force=args.force)
    installed = None if replaces else _install(args, plugin)
    units: dict[str, Put] = {}
    if has_manager:
        agent, units = by_systemd(
            place,
            found,
            args.timeout,
            contents,
            lambda path, content: _put(args, path, content, READABLE),
        )
    else:
        agent = in_background(args, place, found)
    if installed is None:
        installed = _install(args, plugin)
    plugins, failed = installed
    decision = decided(args)
    up = Up(
        plugin=plugins[0],
        elsewhere=tuple(plugins[1:]),
        failed=tuple(failed),
        agent=agent,
        network=_configure(args, decision),
        restored=_restore_others(args),
        units=tuple(FilePart(change, path) for path, change in units.items()),
    )
    return up, decision


def write_units(args: argparse.Namespace, place: Place) -> None:
    """For another machine, or for a package: nothing is asked of systemd, and nothing else is done."""
    for name, content in rendered(place, own_command(place, args.conf_dir)).items():
        path = os.path.join(args.units_only, name)
        try:
            change = put(path, content, READABLE)
        except OSError as cause:
            raise Unwritable(path, cause) from None
        say(*table([("unit", change, path)]))


def _install(args: argparse.Namespace, plugin: bytes) -> tuple[list[PluginPart], list[FailedPlace]]:
    """At every place; the first is the one that was asked for."""
    installed, failed = install_everywhere(
        args.plugin_dir, args.state_dir, lambda path: _put(args, path, plugin, EXECUTABLE)
    )
    return [PluginPart(change, path) for path, change in installed.items()], failed


def _configure(args: argparse.Namespace, network: Decision) -> NetworkPart:
    is_kept = _remember(args, network)
    return _part(network.path, network.values, _written(args, network), is_kept=is_kept)


def _written(args: argparse.Namespace, network: Decision) -> Configured:
    if not network.is_ours:
        return "kept"
    if not network.is_restored:
        return _put(args, network.path, network.content, READABLE)
    if _restore(args, network.path, network.content, is_own=is_as_written(network.content)) == "kept":
        return "kept"
    return "restored" if network.before == network.values.network else "renamed"


def _remember(args: argparse.Namespace, network: Decision) -> bool:
    """Makes it the network of this node, if it is: before it is written. Whether the agent is to keep it.

    A network of somebody else's file is the node's only if that was asked for.
    """
    known, name = receipt(args.state_dir), network.values.network or ""
    is_asked = args.network is not None or bool(args.keep_network)
    is_own = network.is_ours or is_asked or name == known.network or network.path in known.files
    keeps = known.keep_network if args.keep_network is None else bool(args.keep_network)
    fresh = replace(known, network=name if is_own else known.network, keep_network=keeps)
    if fresh != known:
        write_receipt(args.state_dir, fresh)
    copy = Copy(name, network.path, network.content.decode())
    if is_own and copy not in copies(args.state_dir):
        try:
            keep_copy(args.state_dir, copy)
        except OSError as cause:
            raise unwritable_state(args.state_dir, cause) from None
    return keeps and is_own


def _restore_others(args: argparse.Namespace) -> tuple[NetworkPart, ...]:
    """Files of networks that have attachments, and that are missing."""
    kept = copies(args.state_dir)
    found = NetworkFiles(args.conf_dir).found()
    attached = networks_attached_of(args)
    lost = [
        it.copy
        for it in missing(args.conf_dir, kept, found, receipt(args.state_dir), attached)
        if not it.is_taken and is_sound(it.copy)
    ]
    for it in lost:
        _restore(args, it.path, it.content.encode(), is_own=False)
    return tuple(_part(it.path, values_of(it.content.encode()), "restored") for it in lost)


def _part(path: str, values: Options, change: Configured, *, is_kept: bool = False) -> NetworkPart:
    return NetworkPart(
        change=change,
        path=path,
        name=values.network,
        pools=tuple(values.pools or ()),
        mtu=values.mtu or None,
        masquerade=values.masquerade,
        cni_version=values.cni_version,
        is_kept=is_kept,
    )


def _put(args: argparse.Namespace, path: str, content: bytes, mode: int) -> Put:
    try:
        return install(args.state_dir, path, content, mode)
    except OSError as cause:
        raise Unwritable(path, cause) from None


def _restore(args: argparse.Namespace, path: str, content: bytes, *, is_own: bool) -> Put:
    """What somebody wrote or changed by hand stays theirs: no later run and no purge takes it for ours."""
    if is_own or digest(content) in receipt(args.state_dir).files.values():
        return _put(args, path, content, READABLE)
    try:
        return restore(args.state_dir, path, content, READABLE)
    except OSError as cause:
        raise Unwritable(path, cause) from None
