"""What `netloom up` does, in the order in which no runtime ever finds a network that cannot work.

Each file is written down as soon as it is there: so a run that is cut off has left nothing that nobody knows.
"""

from __future__ import annotations

import argparse
import os

from ..agent.install import EXECUTABLE, READABLE, Put, digest, missing_directories, put, receipt
from .agent_process import Place
from .agent_start import own_command
from .conflist import Decision, Options, decide
from .output import say
from .receipts import write_receipt
from .units import rendered
from .up_agent import found_agent, in_background, is_of_another
from .up_host import usable_default_pools
from .up_plugins import FailedPlace, Unwritable, install_everywhere
from .up_report import FilePart, NetworkPart, PluginPart, Up
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
    default_pools = usable_default_pools(args.mtu)
    return decide(
        args.conf_dir, given, receipt(args.state_dir), force=args.force, default_pools=default_pools
    )


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
    change = _put(args, network.path, network.content, READABLE) if network.is_ours else "kept"
    return NetworkPart(
        change=change,
        path=network.path,
        name=network.values.network,
        pools=tuple(network.values.pools or ()),
        mtu=network.values.mtu or None,
        masquerade=network.values.masquerade,
        cni_version=network.values.cni_version,
    )


def _put(args: argparse.Namespace, path: str, content: bytes, mode: int) -> Put:
    missing = missing_directories(path)
    try:
        change = put(path, content, mode)
    except OSError as cause:
        raise Unwritable(path, cause) from None
    known = receipt(args.state_dir)
    if missing or known.files.get(path) != digest(content):
        write_receipt(args.state_dir, known.adding(path, content, missing))
    return change
