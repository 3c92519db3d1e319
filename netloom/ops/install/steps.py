"""The steps of `netloom up`, in an order in which no runtime ever finds a network that cannot work.

The receipt lists each file as soon as it exists, so that an interrupted run leaves no unknown file.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from ...api.paths import Place
from ..control.process import undisturbed
from ..control.start import own_command
from ..control.units import rendered, require_booted, write_down
from ..errors import UsageError
from ..journals.reading import networks_attached_of
from ..node.install import EXECUTABLE, READABLE, Put, digest, put, receipt
from ..node.networks import Copy, NetworkFiles, copies, is_sound, keep_copy, missing, own_copy
from .conflist import AgentAccess, Decision, NetworkOptions, NodeOptions, decide, is_as_written, values_of
from .host import (
    make_state_dir,
    require_library,
    require_nameable,
    require_own_node,
    require_plugin,
    require_pools_fit,
    require_trusted,
    usable_default_pools,
)
from .plugins import (
    FailedPlace,
    UnwritableFile,
    forget_lost,
    install,
    install_everywhere,
    require_no_foreign_file,
    require_receipt,
    restore,
    unwritable_state,
    warnings_of_damage,
    write_receipt,
)
from .report import Configured, FilePart, NetworkPart, PluginPart, UpReport, obstacles_of, warnings_of
from .service import by_systemd, found_agent, in_background, is_of_another, is_used, judge


def make_node(options: NodeOptions, access: AgentAccess) -> tuple[UpReport, bool]:
    """Makes this machine a node. Returns the report, and whether there was nothing to do or to warn of."""
    place = options.place
    plugin = require_plugin()
    # Everything that can be checked is checked before anything is changed.
    require_nameable(place.conf_dir)
    require_trusted(place)
    damage = require_receipt(place.state_dir)
    decision = _decided(options)
    if not options.force:
        require_pools_fit(decision, options.network.mtu)
        require_no_foreign_file(place.plugin_dir, receipt(place.state_dir))
    if options.systemd and options.no_agent:
        raise UsageError("--systemd and --no-agent contradict each other", "give one of them")
    if options.systemd:
        require_booted()
    if not options.no_agent:
        require_library()
    adopted = require_own_node(place.state_dir, adopts=options.adopt)
    make_state_dir(place.state_dir)
    with undisturbed(place, options.timeout):
        up, decision = _done(options, access, plugin)
        if damage is not None:
            write_down(place.state_dir)
        forgotten = forget_lost(place.state_dir)
    obstacles = obstacles_of(options)
    lost = [*adopted, *warnings_of_damage(damage), *forgotten]
    up = replace(up, warnings=(*lost, *warnings_of(options, up.agent, decision), *obstacles))
    return up, not obstacles and not lost and up.is_as_it_was and options.keep_network is None


def _decided(options: NodeOptions) -> Decision:
    place = options.place
    known = receipt(place.state_dir)
    copy = own_copy(known, copies(place.state_dir))
    given, force = options.network, options.force
    default_pools = usable_default_pools(given.mtu, force=force)
    return decide(place.conf_dir, given, known, force=force, default_pools=default_pools, copy=copy)


def _done(options: NodeOptions, access: AgentAccess, plugin: bytes) -> tuple[UpReport, Decision]:
    """Replaces an old agent before its plugin: if that fails, the plugin of its version stays, too."""
    place = options.place
    found = found_agent(place)
    replaces = found is not None and not options.no_agent and is_of_another(found.info)
    has_manager = not options.no_agent and (options.systemd or is_used(options.place.state_dir))
    # This also refuses a path that a unit cannot hold.
    contents = rendered(place, own_command(place, options.place.conf_dir)) if has_manager else {}
    if has_manager:
        judge(place, found, access, force=options.force)
    installed = None if replaces else _install(options, plugin)
    units: dict[str, Put] = {}
    if has_manager:
        agent, units = by_systemd(
            place,
            found,
            options.timeout,
            contents,
            lambda path, content: _put(options, path, content, READABLE),
            access,
        )
    else:
        agent = in_background(options, found, access.tell)
    if installed is None:
        installed = _install(options, plugin)
    plugins, failed = installed
    decision = _decided(options)
    up = UpReport(
        plugin=plugins[0],
        elsewhere=tuple(plugins[1:]),
        failed=tuple(failed),
        agent=agent,
        network=_configure(options, decision),
        restored=_restore_others(options),
        units=tuple(FilePart(change, path) for path, change in units.items()),
    )
    return up, decision


def write_units(place: Place, directory: str) -> list[FilePart]:
    """Writes the units for another machine or a package. Does not call systemd or do anything else."""
    written = []
    for name, content in rendered(place, own_command(place, place.conf_dir)).items():
        path = os.path.join(directory, name)
        try:
            written.append(FilePart(put(path, content, READABLE), path))
        except OSError as cause:
            raise UnwritableFile(path, cause) from None
    return written


def _install(options: NodeOptions, plugin: bytes) -> tuple[list[PluginPart], list[FailedPlace]]:
    """Installs the plugin at every path. The first is the one that was requested."""
    installed, failed = install_everywhere(
        options.place.plugin_dir,
        options.place.state_dir,
        lambda path: _put(options, path, plugin, EXECUTABLE),
    )
    return [PluginPart(change, path) for path, change in installed.items()], failed


def _configure(options: NodeOptions, network: Decision) -> NetworkPart:
    is_kept = _remember(options, network)
    return _part(network.path, network.values, _written(options, network), is_kept=is_kept)


def _written(options: NodeOptions, network: Decision) -> Configured:
    if not network.is_ours:
        return "kept"
    if not network.is_restored:
        return _put(options, network.path, network.content, READABLE)
    if _restore(options, network.path, network.content, is_own=is_as_written(network.content)) == "kept":
        return "kept"
    return "restored" if network.before == network.values.network else "renamed"


def _remember(options: NodeOptions, network: Decision) -> bool:
    """Records the node's network, before its file is written. Returns whether the agent is to keep the file.

    A network in a foreign file becomes the node's only if that was asked for.
    """
    known, name = receipt(options.place.state_dir), network.values.network or ""
    is_asked = options.network.network is not None or bool(options.keep_network)
    is_own = network.is_ours or is_asked or name == known.network or network.path in known.files
    keeps = known.keep_network if options.keep_network is None else bool(options.keep_network)
    fresh = replace(known, network=name if is_own else known.network, keep_network=keeps)
    if fresh != known:
        write_receipt(options.place.state_dir, fresh)
    copy = Copy(name, network.path, network.content.decode())
    if is_own and copy not in copies(options.place.state_dir):
        try:
            keep_copy(options.place.state_dir, copy)
        except OSError as cause:
            raise unwritable_state(options.place.state_dir, cause) from None
    return keeps and is_own


def _restore_others(options: NodeOptions) -> tuple[NetworkPart, ...]:
    """Restores missing files of networks that have attachments."""
    kept = copies(options.place.state_dir)
    found = NetworkFiles(options.place.conf_dir).found()
    attached = networks_attached_of(options.place)
    lost = [
        it.copy
        for it in missing(options.place.conf_dir, kept, found, receipt(options.place.state_dir), attached)
        if not it.is_taken and is_sound(it.copy)
    ]
    for it in lost:
        _restore(options, it.path, it.content.encode(), is_own=False)
    return tuple(_part(it.path, values_of(it.content.encode()), "restored") for it in lost)


def _part(path: str, values: NetworkOptions, change: Configured, *, is_kept: bool = False) -> NetworkPart:
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


def _put(options: NodeOptions, path: str, content: bytes, mode: int) -> Put:
    try:
        return install(options.place.state_dir, path, content, mode)
    except OSError as cause:
        raise UnwritableFile(path, cause) from None


def _restore(options: NodeOptions, path: str, content: bytes, *, is_own: bool) -> Put:
    """Restores a file. One that a user wrote or changed stays the user's, for later runs and the purge."""
    if is_own or digest(content) in receipt(options.place.state_dir).files.values():
        return _put(options, path, content, READABLE)
    try:
        return restore(options.place.state_dir, path, content, READABLE)
    except OSError as cause:
        raise UnwritableFile(path, cause) from None
