"""Make this machine a node: install the plugin, start the agent, configure a network.

What is there already and right is kept, so it may be run again at any time. The agent runs in the
background, and its log is agent.log in the state directory. The network's file is written last, when the
agent answers: a runtime never finds a network that cannot work. Options that are not given leave as it is
what an earlier run has configured. An agent of another version is replaced: it hands its socket over, calls
wait for a moment, none fails, and containers keep their networks. If the new one cannot follow, nothing is
changed. With --systemd, and wherever that was given once, systemd runs the agent.

examples:
  netloom up
  netloom up --pool 10.20.0.0/16 --pool fd20::/64 --mtu 1400
  netloom up --no-masquerade   where the pools are routed to this host
  netloom up --cni-version 1.1.0
  netloom up --systemd         started at boot, watched, and started again, by systemd
  netloom up --no-agent        for another service manager that runs `netloom agent`
"""

from __future__ import annotations

import argparse
import os
from typing import Annotated

from msgspec import Meta, Struct, structs

from ..agent.install import (
    EXECUTABLE,
    READABLE,
    NotBuilt,
    Put,
    keep_receipt,
    missing_directories,
    put,
    receipt,
    shipped_plugin,
)
from ..cni.files import make_directories
from ..cni.versions import starting_from
from .agent_process import Place, undisturbed
from .agent_start import own_command
from .arguments import add_json, seconds
from .conflist import DEFAULT_NAME, DEFAULT_POOLS, DEFAULT_VERSION, Decision, Options, decide
from .failure import CommandFailed, UsageError, warn
from .output import require_output, say
from .place import PLUGIN_DIR, absolute, add_conf_dir, add_place
from .privileges import require_root
from .service_manager import require_booted
from .units import rendered
from .up_agent import AgentPart, found_agent, in_background, is_of_another
from .up_systemd import by_systemd, is_used, judge
from .up_warnings import obstacles_of, warnings_of
from .views import for_a_person, print_json, table


class FilePart(Struct, frozen=True):
    """What became of a file."""

    change: Annotated[Put, Meta(description="`kept`: it was there and right")]
    path: Annotated[str, Meta(description="where it is")]


class NetworkPart(
    Struct, frozen=True, kw_only=True, rename={"masquerade": "ipMasq", "cni_version": "cniVersion"}
):
    """What became of the network's file, and what it says."""

    change: Annotated[Put, Meta(description="`kept`: it was there and right, or is somebody else's")]
    path: Annotated[str, Meta(description="where it is")]
    name: Annotated[str | None, Meta(description="the network's name")]
    pools: Annotated[tuple[str, ...], Meta(description="addresses for containers")]
    mtu: Annotated[int | None, Meta(description="of every link; null: what the default route's has")]
    masquerade: Annotated[
        bool | None, Meta(description="whether what leaves the pools gets the host's address")
    ]
    cni_version: Annotated[str | None, Meta(description="of the configuration")]


class Up(Struct, frozen=True, kw_only=True):
    """What `netloom up` did."""

    plugin: Annotated[FilePart, Meta(description="the executable that runtimes call")]
    agent: Annotated[AgentPart, Meta(description="the process that serves it")]
    network: Annotated[NetworkPart, Meta(description="the configuration that runtimes read")]
    units: Annotated[tuple[FilePart, ...], Meta(description="of systemd, if it runs the agent")] = ()
    warnings: Annotated[tuple[str, ...], Meta(description="what works, and may not be what was meant")] = ()


OUTPUT = Up


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--network", metavar="NAME", help=f"the network's name (default {DEFAULT_NAME})")
    parser.add_argument(
        "--pool",
        metavar="CIDR",
        action="append",
        dest="pools",
        help=f"addresses for containers; may be repeated (default {' and '.join(DEFAULT_POOLS)})",
    )
    parser.add_argument(
        "--mtu",
        metavar="BYTES",
        type=int,
        help="of every link of the network (default 0: what the default route's link has)",
    )
    parser.add_argument(
        "--masquerade",
        action=argparse.BooleanOptionalAction,
        help="give what leaves the pools the host's own address, so that answers come back (default: yes)",
    )
    parser.add_argument(
        "--cni-version",
        metavar="VERSION",
        choices=starting_from("0.3.0"),  # which brought lists of plugins
        help=f"of the network's configuration (default {DEFAULT_VERSION}; 1.1.0 has GC and STATUS)",
    )
    parser.add_argument(
        "--plugin-dir",
        metavar="DIR",
        type=absolute,
        default=PLUGIN_DIR,
        help=f"where runtimes look for plugins (default {PLUGIN_DIR})",
    )
    add_conf_dir(parser)
    add_place(parser)
    parser.add_argument("--no-agent", action="store_true", help="neither start nor replace an agent")
    parser.add_argument(
        "--systemd",
        action="store_true",
        help="let systemd run the agent: write its units, start them, and from now on keep them so",
    )
    parser.add_argument(
        "--units-only",
        metavar="DIR",
        type=absolute,
        help="write the units of --systemd to a directory, for another machine, and do nothing else",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a network's file or a unit that somebody else wrote or changed, or rename the network",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=15.0,
        metavar="SECONDS",
        help="how long an agent may take until it answers (default 15)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("making this machine a node")
    place = Place(args.state_dir, args.socket)
    if args.units_only is not None:
        _write_units(args, place)
        return 0
    plugin = _plugin()
    # All that can be judged is judged before anything is changed.
    _decided(args)
    if args.systemd and args.no_agent:
        raise UsageError("--systemd and --no-agent say the opposite of each other", "give one of them")
    if args.systemd:
        require_booted()
    _make_state_dir(args.state_dir)
    with undisturbed(place, args.timeout):
        done, decision = _done(args, place, plugin)
    obstacles = obstacles_of(args)
    done = structs.replace(done, warnings=(*warnings_of(args, done.agent, decision), *obstacles))
    if for_a_person(args.json):
        _show(done)
        changes = [
            done.plugin.change,
            done.agent.change,
            done.network.change,
            *(it.change for it in done.units),
        ]
        if not obstacles and set(changes) == {"kept"}:
            say("nothing to do: all of it was there")
        for warning in done.warnings:
            warn(args, warning)
    else:
        print_json(done)
    return 0


def _make_state_dir(path: str) -> None:
    try:
        make_directories(path, 0o700)
    except OSError as cause:
        raise CommandFailed(
            f"cannot make {path}: {cause.strerror}", "give another --state-dir", code="file-unwritable"
        ) from None


def _plugin() -> bytes:
    try:
        return shipped_plugin()
    except NotBuilt as error:
        raise CommandFailed(
            str(error),
            "build it, with a C compiler: `make setup` in a checkout, or `pip install .`",
            code="plugin-not-built",
        ) from None


def _decided(args: argparse.Namespace) -> Decision:
    given = Options(
        network=args.network,
        pools=None if args.pools is None else tuple(args.pools),
        mtu=args.mtu,
        masquerade=args.masquerade,
        cni_version=args.cni_version,
    )
    return decide(args.conf_dir, given, receipt(args.state_dir), force=args.force)


def _install(args: argparse.Namespace, plugin: bytes) -> FilePart:
    path = os.path.join(args.plugin_dir, "netloom")
    return FilePart(_put(args, path, plugin, EXECUTABLE), path)


def _put(args: argparse.Namespace, path: str, content: bytes, mode: int) -> Put:
    missing = missing_directories(path)
    try:
        change = put(path, content, mode)
        known = receipt(args.state_dir)
        if missing or not known.is_ours(path, content):
            keep_receipt(args.state_dir, known.adding(path, content, missing))
    except OSError as cause:
        raise CommandFailed(
            f"cannot write {cause.filename or path}: {cause.strerror}",
            "look at the path: its permissions, what is in its place, and space on its disk",
            code="file-unwritable",
        ) from None
    return change


def _done(args: argparse.Namespace, place: Place, plugin: bytes) -> tuple[Up, Decision]:
    """An agent that is replaced comes first: if it cannot be, the plugin of its version stays, too."""
    found = found_agent(place)
    replaces = found is not None and not args.no_agent and is_of_another(found.info)
    has_manager = not args.no_agent and (args.systemd or is_used(args.state_dir))
    if has_manager:
        judge(place, found, force=args.force)
    installed = None if replaces else _install(args, plugin)
    units: dict[str, Put] = {}
    if has_manager:
        agent, units = by_systemd(
            place,
            found,
            args.timeout,
            own_command(place, args.conf_dir),
            lambda path, content: _put(args, path, content, READABLE),
        )
    else:
        agent = in_background(args, place, found)
    if installed is None:
        installed = _install(args, plugin)
    decision = _decided(args)
    done = Up(
        plugin=installed,
        agent=agent,
        network=_configure(args, decision),
        units=tuple(FilePart(change, path) for path, change in units.items()),
    )
    return done, decision


def _write_units(args: argparse.Namespace, place: Place) -> None:
    """For another machine, or for a package: nothing is asked of systemd, and nothing else is done."""
    for name, content in rendered(place, own_command(place, args.conf_dir)).items():
        path = os.path.join(args.units_only, name)
        try:
            change = put(path, content, READABLE)
        except OSError as cause:
            raise CommandFailed(
                f"cannot write {cause.filename or path}: {cause.strerror}",
                "look at the path: its permissions, what is in its place, and space on its disk",
                code="file-unwritable",
            ) from None
        say(*table([("unit", change, path)]))


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


def _show(done: Up) -> None:
    agent, network = done.agent, done.network
    who = f"process {agent.process} at {agent.socket}" if agent.process else agent.socket
    who += f", log in {agent.log}" if agent.log else ""
    who += f", run by {agent.unit}" if agent.unit else ""
    who += f"; calls waited {agent.waited_ms:.0f} ms at most" if agent.waited_ms is not None else ""
    rows = [
        ("plugin", done.plugin.change, done.plugin.path),
        *(("unit", unit.change, unit.path) for unit in done.units),
        ("agent", agent.change, who),
        ("network", network.change, f"{network.name} ({', '.join(network.pools)}) in {network.path}"),
    ]
    say(*table(rows))
