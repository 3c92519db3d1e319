"""Set up this node: install the plugin, start the agent, configure a network.

The command changes only what is missing or different, so it can be run again at any time. Options that are
not given keep their values from earlier runs. The agent runs in the background; its log is agent.log in the
state directory. The network configuration is written last, when the agent answers, so that runtimes never
find a network that does not work yet; if the file was deleted, it is restored as it was.

An agent of another version is replaced: the new agent takes over the socket, calls wait for a moment, none
fails, and containers keep their networks. If the takeover fails, nothing is changed. With --systemd, in this
or an earlier run, systemd runs the agent. The plugin is updated in every directory where it was installed;
--plugin-dir adds one.

examples:
  netloom up
  netloom up --pool 10.20.0.0/16 --pool fd20::/64 --mtu 1400
  netloom up --no-masquerade   for pools that are routed to this host
  netloom up --cni-version 1.1.0
  netloom up --keep-network    with podman, whose `prune` deletes networks that no container uses
  netloom up --plugin-dir /usr/lib/cni   for Debian's containerd, which looks for plugins there
  netloom up --systemd         systemd starts the agent at boot, watches and restarts it
  netloom up --no-agent        another service manager runs `netloom agent`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...api.paths import DEFAULT_PLUGIN_DIR, Place
from ...api.text import printable_line
from ...cni.versions import starting_from
from ...ops.advice import require_root
from ...ops.errors import OperationFailed
from ...ops.install.conflist import (
    DEFAULT_NAME,
    DEFAULT_POOLS,
    DEFAULT_VERSION,
    AgentAccess,
    NetworkOptions,
    NodeOptions,
)
from ...ops.install.report import NetworkPart, UpReport
from ...ops.install.steps import make_node, write_units
from ..arguments import absolute, add_conf_dir, add_json, add_place, nameable, place_of, seconds
from ..exit_status import FAILED
from ..failure import warn
from ..terminal.output import complain, progress_line, require_output, say
from ..terminal.tables import print_json, table

# Shorter waits are not shown.
_SOON = 1.0

OUTPUT = UpReport


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--network",
        metavar="NAME",
        help=f"name of the network to configure (default: {DEFAULT_NAME}); configure others by hand",
    )
    parser.add_argument(
        "--pool",
        metavar="CIDR",
        action="append",
        dest="pools",
        help=f"CIDR range for container addresses; repeatable (default: {' and '.join(DEFAULT_POOLS)}; on a "
        f"host without IPv6 {DEFAULT_POOLS[0]}; if they overlap a network of the host, a free private range)",
    )
    parser.add_argument(
        "--mtu",
        metavar="BYTES",
        type=int,
        help="MTU of the network's links (default: 0, the MTU of the default route's link)",
    )
    parser.add_argument(
        "--masquerade",
        action=argparse.BooleanOptionalAction,
        help="NAT traffic that leaves the pools to the host's address (default: on)",
    )
    parser.add_argument(
        "--keep-network",
        action=argparse.BooleanOptionalAction,
        help="let the agent restore the network configuration if other software deletes it, as `podman "
        "system prune` does (default: unchanged; off on a new node)",
    )
    parser.add_argument(
        "--cni-version",
        metavar="VERSION",
        choices=starting_from("0.3.0"),  # the first version with plugin lists
        help=f"CNI version of the configuration (default: {DEFAULT_VERSION}; 1.1.0 has GC and STATUS)",
    )
    parser.add_argument(
        "--plugin-dir",
        metavar="DIR",
        type=nameable,
        help="directory to install the plugin into, in addition to those of earlier runs (default: those, or "
        f"{DEFAULT_PLUGIN_DIR})",
    )
    add_conf_dir(parser)
    add_place(parser)
    parser.add_argument("--no-agent", action="store_true", help="do not start or replace an agent")
    parser.add_argument(
        "--systemd",
        action="store_true",
        help="run the agent under systemd: write and start its units; later runs of `netloom up` update them",
    )
    parser.add_argument(
        "--units-only",
        metavar="DIR",
        type=absolute,
        help="only write the systemd units to this directory, for use on another machine",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a network configuration, a unit or a file at the plugin's path that others wrote or "
        "changed; rename the network; or use a pool that overlaps a network of this host",
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="take over a host whose nft table and links belong to a stopped agent with another --state-dir; "
        "its containers keep their networks and become orphaned",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=15.0,
        metavar="SECONDS",
        help="time limit for the agent to answer (default: 15)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("setting up the node")
    if args.units_only is not None:
        for unit in write_units(place_of(args), args.units_only):
            say(*table([("unit", unit.change, unit.path)]))
        return 0
    with _waiting(args.timeout) as show_wait:
        up, is_as_it_was = make_node(
            _options(args), AgentAccess(_require_readable, _replace_agent, show_wait)
        )
    if not args.json:
        _show(up)
        if is_as_it_was:
            say("nothing to do: everything is up to date")
        for warning in up.warnings:
            warn(args, printable_line(warning))
        for it in up.failed:
            complain(printable_line(f"error: {it.error}"), printable_line(f"next:  {it.next}"))
    else:
        print_json(up)
    return FAILED if up.failed else 0


def _options(args: argparse.Namespace) -> NodeOptions:
    return NodeOptions(
        place=place_of(args),
        network=NetworkOptions(
            network=args.network,
            pools=None if args.pools is None else tuple(args.pools),
            mtu=args.mtu,
            masquerade=args.masquerade,
            cni_version=args.cni_version,
        ),
        keep_network=args.keep_network,
        force=args.force,
        adopt=args.adopt,
        no_agent=args.no_agent,
        systemd=args.systemd,
        timeout=args.timeout,
    )


@contextmanager
def _waiting(timeout: float) -> Iterator[Callable[[float], None]]:
    """Shows every second on the terminal how long the agent has taken to answer."""
    with progress_line(shown=True) as show:
        last = 0

        def show_wait(waited: float) -> None:
            nonlocal last
            if waited > _SOON and int(waited) > last:
                last = int(waited)
                show(f"waiting for the agent: {last} of {timeout:g} s ")

        yield show_wait


def _require_readable(journal: str) -> None:
    from ...agent.handover.successor import require_readable

    require_readable(journal)


def _replace_agent(place: Place, listen: Callable[[], None]) -> None:
    from ...agent.handover.older_agent import replace_older_by
    from ...agent.handover.successor import HandoverRefused
    from ...agent.settings import Settings

    try:
        replace_older_by(Settings(state_dir=place.state_dir, socket=place.socket), listen)
    except HandoverRefused as error:
        raise OperationFailed(
            str(error), "stop the old agent with `netloom down`, and try again", code="handover-refused"
        ) from None


def _show(done: UpReport) -> None:
    agent, network = done.agent, done.network
    who = f"process {agent.process} at {agent.socket}" if agent.process else agent.socket
    who += f", log in {agent.log}" if agent.log else ""
    who += f", run by {agent.unit}" if agent.unit else ""
    who += f"; calls waited {agent.waited_ms:.0f} ms at most" if agent.waited_ms is not None else ""
    rows = [
        *(("plugin", it.change, it.path) for it in (done.plugin, *done.elsewhere)),
        *(("unit", unit.change, unit.path) for unit in done.units),
        ("agent", agent.change, who),
        *(("network", it.change, _shown(it)) for it in (network, *done.restored)),
    ]
    say(*table([tuple(map(printable_line, row)) for row in rows]))


def _shown(network: NetworkPart) -> str:
    kept = ", kept by the agent" if network.is_kept else ""
    return f"{network.name} ({', '.join(network.pools)}) in {network.path}{kept}"
