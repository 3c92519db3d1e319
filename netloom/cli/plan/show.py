"""Show the plan of the next ADD to a network, and change nothing: addresses, name, links, routes, rules.

On a terminal it is a list; off it, and with --json, the plan itself, as `netloom plan apply` takes it.
CNI_ARGS and CAP_ARGS count as they do for `netloom cni add`. Somebody else's ADD may come first and get
these addresses, and a pool with strategy random gives others each time.

examples:
  netloom plan show mynet
  netloom plan show mynet --container-id web-1 -i net1
  netloom plan show mynet --netns web --json >web.plan; netloom plan check web.plan --netns web
"""

from __future__ import annotations

import argparse
import os

from ...agent.host import Host, look_at
from ...agent.network import network_of
from ...agent.reservation import Wanted, reserve, wanted_of
from ...cni import Endpoint, InvalidConfig, NetworkConfig, load_networks
from ...cni.names import validate_container_id, validate_ifname
from ...cni.skel import Request
from ...cni.wire import indent
from ...journal import Ledger, empty
from ...kernel import Namespace, Plan
from ..arguments import add_json
from ..cni import target
from ..failure import Advised, warn
from ..journal import copy_of_journal
from ..networks import TYPE, plugin_of, request
from ..output import say, write_bytes
from ..place import add_conf_dir, add_state_dir
from ..views import for_a_person, table

# Of an ADD that says nothing of its container.
_SOME_CONTAINER = "example"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", help="a network's name in the configuration directory")
    parser.add_argument(
        "--container-id",
        metavar="ID",
        help=f"the container (default: as `netloom cni add` names that of NETNS, or {_SOME_CONTAINER!r})",
    )
    parser.add_argument("--netns", metavar="NETNS", help="its namespace: a path, or a name of `ip netns`")
    parser.add_argument("-i", "--ifname", metavar="NAME", help="interface name (default: CNI_IFNAME or eth0)")
    add_conf_dir(parser)
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    ledger = copy_of_journal(args) or empty()
    wanted = _wanted(args, ledger)
    reserved = reserve(ledger, wanted)
    if not reserved.is_new:
        warn(args, f"{'/'.join(wanted.key)} is attached already: this is its plan")
    plan = Plan.decode(reserved.attachment.plan)
    if for_a_person(args.json):
        say(*table([(item.on, item.title) for item in plan.objects], ["ON", "OBJECT"]))
    else:
        write_bytes(indent(plan.encode()) + b"\n")
    return 0


def _wanted(args: argparse.Namespace, ledger: Ledger) -> Wanted:
    asked = request(_network(args), "ADD", _endpoint(args))
    return wanted_of(
        asked,
        network_of(asked),
        _namespace(asked, ledger),
        boot_id="",
        host=_host(),
    )


def _namespace(asked: Request, ledger: Ledger) -> tuple[int, int]:
    """Which namespace it is: what else is attached there counts. One that is not there yet has nothing."""
    try:
        status = os.stat(asked.netns)
        return status.st_dev, status.st_ino
    except OSError:
        others = ledger.of_container(asked.container_id)
        return (others[0].netns_device, others[0].netns_inode) if others else (0, 0)


def _network(args: argparse.Namespace) -> NetworkConfig:
    catalogue = load_networks(args.conf_dir)
    target.warn_of_problems(args, catalogue)
    config = catalogue.find(args.network)
    if plugin_of(config) is None:
        raise Advised(
            InvalidConfig(f'network "{config.name}" has no plugin of type {TYPE}'),
            "only netloom's own plugin has plans; `netloom cni validate` lists the plugins of each network",
        )
    if config.plugins[0].type != TYPE:
        warn(args, "what the plugins before netloom's would answer is not known; it may change routes")
    return config


def _endpoint(args: argparse.Namespace) -> Endpoint:
    netns = args.netns or ""
    if netns and "/" not in netns:
        netns = f"/run/netns/{netns}"
    args.netns = netns or "/run/netns/example"
    found = target.endpoint(args)
    container = args.container_id or (found.container_id if netns else _SOME_CONTAINER)
    validate_container_id(container)
    validate_ifname(found.ifname)
    return Endpoint(container, found.netns, found.ifname, found.args, found.capability_args)


def _host() -> Host:
    with Namespace.own() as namespace:
        return look_at(namespace)
