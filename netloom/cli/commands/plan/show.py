"""Show the plan of the next ADD to a network, without changes: addresses, names, links, routes, rules.

The output is a list; with --json, it is the plan that `netloom plan apply` takes. CNI_ARGS and CAP_ARGS apply
as for `netloom cni add`. The command fails where the ADD would fail, such as for a missing namespace or an
exhausted pool. Omit --netns for a container that does not exist yet. The ADD may get other addresses: another
ADD may come first, and a pool with strategy random assigns different ones each time.

examples:
  netloom plan show mynet
  netloom plan show mynet --container-id web-1 -i net1
  netloom plan show mynet --netns web --json >web.plan; netloom plan check web.plan --netns web
"""

from __future__ import annotations

import argparse

from ....agent.verbs.errors import explained
from ....agent.verbs.reservation import Reserved, reserve, wanted_of
from ....cni import CNIError, Endpoint, InvalidConfig, InvalidNetns, NetworkConfig, load_networks
from ....cni.names import validate_container_id, validate_ifname
from ....cni.skel import Request
from ....cni.wire import indent
from ....journal import Ledger, empty
from ....kernel import InvalidNamespace, Namespace, Plan
from ....networks.config import network_of
from ....networks.host import Host
from ....ops.errors import Advised
from ....ops.journals.reading import copy_of_journal, reading
from ....ops.node.host import read_host
from ....ops.node.networks import TYPE, plugin_of, request
from ...arguments import add_conf_dir, add_json, add_state_dir, place_of
from ...failure import warn
from ...terminal.output import say, write_bytes
from ...terminal.tables import table
from ..cni import target

OUTPUT = Plan

# The container's ID if neither --container-id nor --netns is given.
_SOME_CONTAINER = "example"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", help="name of a network in the configuration directory")
    parser.add_argument(
        "--container-id",
        metavar="ID",
        help=f"container ID (default: derived from NETNS as by `netloom cni add`, or {_SOME_CONTAINER!r})",
    )
    parser.add_argument("--netns", metavar="NETNS", help="network namespace: a path, or a name in `ip netns`")
    parser.add_argument("-i", "--ifname", metavar="NAME", help="interface name (default: CNI_IFNAME or eth0)")
    add_conf_dir(parser)
    add_state_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    ledger = copy_of_journal(place_of(args)) or empty()
    is_there = bool(args.netns)
    config, endpoint = _network(args), _endpoint(args)
    try:
        with reading(place_of(args)):
            reserved = _reserved(request(config, "ADD", endpoint), ledger, _host(), is_there=is_there)
    except (CNIError, InvalidNamespace) as error:
        raise explained(error, endpoint.on(config.name)).at(plugin=TYPE) from None
    if not reserved.is_new:
        warn(args, f"{reserved.attachment.key} is already attached: this is its current plan")
    plan = Plan.decode(reserved.attachment.plan)
    if not args.json:
        say(*table([(item.on, item.title) for item in plan.objects], ["ON", "OBJECT"]))
    else:
        write_bytes(indent(plan.encode()) + b"\n")
    return 0


def _reserved(asked: Request, ledger: Ledger, host: Host, *, is_there: bool) -> Reserved:
    network = network_of(asked)
    identity = _namespace(asked.netns) if is_there else _namespace_of(asked.container_id, ledger)
    return reserve(ledger, wanted_of(asked, network, identity, boot_id="", host=host))


def _namespace(path: str) -> tuple[int, int]:
    """Returns the namespace's identity, since its other attachments matter for the plan."""
    with Namespace.own() as host, Namespace.open(path) as found:
        if found.identity == host.identity:
            raise InvalidNetns(f"{path} is the host's namespace, which netloom does not attach")
        return found.identity


def _namespace_of(container_id: str, ledger: Ledger) -> tuple[int, int]:
    """Returns the identity of a container's namespace in the journal; zeros for a container without one."""
    others = ledger.of_container(container_id)
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
        warn(args, "plugins before netloom's were not run; their results may change the routes")
    return config


def _endpoint(args: argparse.Namespace) -> Endpoint:
    args.container_id = args.container_id or (None if args.netns else _SOME_CONTAINER)
    args.netns = args.netns or "/run/netns/example"
    endpoint = target.endpoint(args)
    validate_container_id(endpoint.container_id)
    validate_ifname(endpoint.ifname)
    return endpoint


def _host() -> Host:
    with Namespace.own() as namespace:
        return read_host(namespace)
