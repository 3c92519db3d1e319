"""Make this machine a node: install the plugin, start the agent, configure a network.

What is there already and right is kept, so it may be run again at any time. The agent runs in the
background, and its log is agent.log in the state directory. The network's file is written last, when the
agent answers: a runtime never finds a network that cannot work. Options that are not given leave as it is
what an earlier run has configured. An agent of another version is replaced; containers keep their networks.

examples:
  netloom up
  netloom up --pool 10.20.0.0/16 --pool fd20::/64 --mtu 1400
  netloom up --no-masquerade   where the pools are routed to this host
  netloom up --cni-version 1.1.0
  netloom up --no-agent        for a service manager that runs `netloom agent`
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from .. import __version__
from ..agent.client import AgentError, Silent
from ..agent.info import Info
from ..agent.install import EXECUTABLE, READABLE, NotBuilt, keep_receipt, put, receipt, shipped_plugin
from ..cni.files import make_directories
from ..cni.versions import starting_from
from .agent_presence import silent
from .agent_process import Place, await_other, log_of, running, start, stop, undisturbed
from .arguments import add_json, seconds
from .conflist import DEFAULT_NAME, DEFAULT_POOLS, DEFAULT_VERSION, Decision, Options, decide
from .failure import CommandFailed, warn
from .output import require_output, say
from .place import PLUGIN_DIR, absolute, add_conf_dir, add_place
from .privileges import require_root
from .up_warnings import obstacles_of, warnings_of
from .views import for_a_person, print_json, table


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
        "--force",
        action="store_true",
        help="replace a network's file that somebody else wrote or changed, or rename the network",
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
    plugin = _plugin()
    place = Place(args.state_dir, args.socket)
    # All that can be judged is judged before anything is changed.
    _decided(args)
    _make_state_dir(args.state_dir)
    with undisturbed(place, args.timeout):
        done = {"plugin": _install(args, plugin), "agent": _agent(args, place)}
        decision = _decided(args)
        done["network"] = _configure(args, decision)
    obstacles = obstacles_of(args)
    warnings = [*warnings_of(args, done, decision), *obstacles]
    if for_a_person(args.json):
        _show(done)
        if not obstacles and all(part["change"] == "kept" for part in done.values()):
            say("nothing to do: all of it was there")
        for warning in warnings:
            warn(args, warning)
    else:
        print_json({**done, "warnings": warnings})
    return 0


def _make_state_dir(path: str) -> None:
    try:
        make_directories(path, 0o700)
    except OSError as cause:
        raise CommandFailed(f"cannot make {path}: {cause.strerror}", "give another --state-dir") from None


def _plugin() -> bytes:
    try:
        return shipped_plugin()
    except NotBuilt as error:
        raise CommandFailed(
            str(error), "build it, with a C compiler: `make setup` in a checkout, or `pip install .`"
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


def _install(args: argparse.Namespace, plugin: bytes) -> dict[str, Any]:
    path = os.path.join(args.plugin_dir, "netloom")
    return {"change": _put(args, path, plugin, EXECUTABLE), "path": path}


def _put(args: argparse.Namespace, path: str, content: bytes, mode: int) -> str:
    try:
        change = put(path, content, mode)
        known = receipt(args.state_dir)
        if not known.is_ours(path, content):
            keep_receipt(args.state_dir, known.adding(path, content))
    except OSError as cause:
        raise CommandFailed(
            f"cannot write {cause.filename or path}: {cause.strerror}",
            "look at the path: its permissions, what is in its place, and space on its disk",
        ) from None
    return change


def _agent(args: argparse.Namespace, place: Place) -> dict[str, Any]:
    try:
        found = running(place)
    except Silent as error:
        who = silent(error, place)
        raise CommandFailed(f"the agent does not answer: {who.why}", who.advice) from None
    except AgentError as error:
        raise CommandFailed(str(error), "stop it with `netloom down`, and try again") from None
    if found is not None and found.info.state_dir != place.state_dir:
        raise CommandFailed(
            f"the agent at {place.socket} has its state in {found.info.state_dir}, not in {place.state_dir}",
            "give its --state-dir, or another --socket",
        )
    change = "kept"
    if found is None and not args.no_agent:
        found = await_other(place, args.timeout)
    if found is None and not args.no_agent:
        change, found = "started", start(place, args.timeout)
    elif found is not None and not args.no_agent and _is_of_another(found.info):
        stop(place, args.timeout)
        change, found = "replaced", start(place, args.timeout)
    if found is None:
        return {"change": "none", "process": None, "version": None, "socket": place.socket, "log": None}
    process = found.process or found.info.process
    return {
        "change": change,
        "process": process,
        "version": found.info.version,
        "socket": place.socket,
        "log": log_of(process, place),
    }


def _is_of_another(info: Info) -> bool:
    """Versions that were never released have one number."""
    from ..modes.table import TABLE

    return (info.version, info.table) != (__version__, TABLE.comment)


def _configure(args: argparse.Namespace, network: Decision) -> dict[str, Any]:
    change = _put(args, network.path, network.content, READABLE) if network.is_ours else "kept"
    return {
        "change": change,
        "path": network.path,
        "name": network.values.network,
        "pools": list(network.values.pools or ()),
        "mtu": network.values.mtu or None,
        "ipMasq": network.values.masquerade,
        "cniVersion": network.values.cni_version,
    }


def _show(done: dict[str, dict[str, Any]]) -> None:
    plugin, agent, network = done["plugin"], done["agent"], done["network"]
    who = f"process {agent['process']} at {agent['socket']}"
    who += f", log in {agent['log']}" if agent["log"] else ""
    pools = ", ".join(network["pools"])
    rows = [
        ("plugin", plugin["change"], plugin["path"]),
        ("agent", agent["change"], who if agent["process"] else agent["socket"]),
        ("network", network["change"], f"{network['name']} ({pools}) in {network['path']}"),
    ]
    say(*table(rows))
