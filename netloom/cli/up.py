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

from msgspec import structs

from ..cni.versions import starting_from
from ..ops.node.install import receipt
from .agent_process import Place, undisturbed
from .arguments import add_json, seconds
from .conflist import DEFAULT_NAME, DEFAULT_POOLS, DEFAULT_VERSION
from .failure import UsageError, warn
from .output import complain, printable_line, require_output, say
from .own_units import write_down
from .place import PLUGIN_DIR, absolute, add_conf_dir, add_place, nameable
from .privileges import require_root
from .receipts import require_receipt, warnings_of_damage
from .service_manager import require_booted
from .status import FAILED
from .up_host import require_pools_fit
from .up_plugins import forget_lost, require_no_stranger
from .up_report import Up, show
from .up_requirements import (
    make_state_dir,
    require_library,
    require_nameable,
    require_own_node,
    require_plugin,
    require_trusted,
)
from .up_steps import decided, done, write_units
from .up_warnings import obstacles_of, warnings_of
from .views import print_json

OUTPUT = Up


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
        f"{PLUGIN_DIR})",
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
    place = Place(args.state_dir, args.socket)
    if args.units_only is not None:
        write_units(args, place)
        return 0
    plugin = require_plugin()
    # All that can be judged is judged before anything is changed.
    require_nameable(args.conf_dir)
    require_trusted(place)
    damage = require_receipt(args.state_dir)
    decision = decided(args)
    if not args.force:
        require_pools_fit(decision, args.mtu)
        require_no_stranger(args.plugin_dir, receipt(args.state_dir))
    if args.systemd and args.no_agent:
        raise UsageError("--systemd and --no-agent say the opposite of each other", "give one of them")
    if args.systemd:
        require_booted()
    if not args.no_agent:
        require_library()
    adopted = require_own_node(args.state_dir, adopts=args.adopt)
    make_state_dir(args.state_dir)
    with undisturbed(place, args.timeout):
        up, decision = done(args, place, plugin)
        if damage is not None:
            write_down(args.state_dir)
        forgotten = forget_lost(args.state_dir)
    obstacles = obstacles_of(args)
    lost = [*adopted, *warnings_of_damage(damage), *forgotten]
    up = structs.replace(up, warnings=(*lost, *warnings_of(args, up.agent, decision), *obstacles))
    if not args.json:
        show(up)
        if not obstacles and not lost and up.is_as_it_was and args.keep_network is None:
            say("nothing to do: all of it was there")
        for warning in up.warnings:
            warn(args, printable_line(warning))
        for it in up.failed:
            complain(printable_line(f"error: {it.error}"), printable_line(f"next:  {it.next}"))
    else:
        print_json(up)
    return FAILED if up.failed else 0
