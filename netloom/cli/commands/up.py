"""Make this machine a node: install the plugin, start the agent, configure a network.

What is there already and right is kept, so it may be run again at any time. The agent runs in the
background, and its log is agent.log in the state directory. The network's file is written last, when the
agent answers: a runtime never finds a network that cannot work. Options that are not given leave as it is
what an earlier run has configured; a network's file that is missing is restored as this node had it. An agent
of another version is replaced: it hands its socket over, calls wait for a moment, none fails, and containers
keep their networks. If the new one cannot follow, nothing is changed. With --systemd, and wherever that was
given once, systemd runs the agent. The plugin is brought up to date at every place at which it was ever
installed: --plugin-dir adds one.

examples:
  netloom up
  netloom up --pool 10.20.0.0/16 --pool fd20::/64 --mtu 1400
  netloom up --no-masquerade   where the pools are routed to this host
  netloom up --cni-version 1.1.0
  netloom up --keep-network    beside podman, whose `prune` deletes networks that no container uses
  netloom up --plugin-dir /usr/lib/cni   where Debian's containerd looks for plugins
  netloom up --systemd         started at boot, watched, and started again, by systemd
  netloom up --no-agent        for another service manager that runs `netloom agent`
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

# A shorter wait needs no line.
_SOON = 1.0

OUTPUT = UpReport


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--network",
        metavar="NAME",
        help=f"the name of the one network that it writes (default {DEFAULT_NAME}); others are by hand",
    )
    parser.add_argument(
        "--pool",
        metavar="CIDR",
        action="append",
        dest="pools",
        help=f"addresses for containers; may be repeated (default {' and '.join(DEFAULT_POOLS)}; on a host "
        f"without IPv6, {DEFAULT_POOLS[0]}; where a network of the host overlaps them, a free private range)",
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
        "--keep-network",
        action=argparse.BooleanOptionalAction,
        help="let the agent restore the network's file when something deletes it, as `podman system prune` "
        "does (default: unchanged; off on a new node)",
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
        type=nameable,
        help="one more directory to install the plugin into; earlier ones are kept (default: those, or "
        f"{DEFAULT_PLUGIN_DIR})",
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
        help="replace a network's file, a unit or a file in the plugin's place that somebody else wrote or "
        "changed, rename the network, or use a pool that overlaps a network of this host",
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
        help="how long an agent may take until it answers (default 15)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("making this machine a node")
    if args.units_only is not None:
        for unit in write_units(place_of(args), args.units_only):
            say(*table([("unit", unit.change, unit.path)]))
        return 0
    with _waiting(args.timeout) as tell:
        up, is_as_it_was = make_node(_options(args), AgentAccess(_require_readable, _replace_agent, tell))
    if not args.json:
        _show(up)
        if is_as_it_was:
            say("nothing to do: all of it was there")
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
    """A line on the terminal, which says every second how long the agent takes."""
    with progress_line(shown=True) as show:
        last = 0

        def tell(waited: float) -> None:
            nonlocal last
            if waited > _SOON and int(waited) > last:
                last = int(waited)
                show(f"waiting for the agent: {last} of {timeout:g} s ")

        yield tell


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
            str(error), "stop it with `netloom down`, and try again", code="handover-refused"
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
