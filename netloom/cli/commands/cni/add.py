"""Attach a namespace to a network and print the result: a table on a terminal, else JSON.

environment:
  NETCONFPATH  directory of network configurations (default: /etc/cni/net.d)
  CNI_PATH     directories of plugins (default: /opt/cni/bin:/usr/lib/cni)
  CNI_ARGS     arguments for the plugins, KEY=VALUE;KEY=VALUE
  CAP_ARGS     capability arguments, a JSON object
  CNI_IFNAME   interface name, unless --ifname is given

examples:
  netloom cni add mynet web
  netloom cni add mynet /run/netns/web
  CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}' \\
    netloom cni add mynet /run/netns/web -i net1 --json
"""

from __future__ import annotations

import argparse

from ....cni import AnyResult
from ...arguments import add_json
from ...terminal.output import require_output
from ...terminal.tables import print_result
from . import target

OUTPUT = AnyResult


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_attachment(parser)
    target.add_runtime(parser)
    parser.add_argument(
        "--cleanup",
        action="store_true",
        help="if the ADD fails, roll it back at once with DEL (30 s at most)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    network = target.network(args)
    endpoint = target.endpoint(args)
    with target.blaming_the_environment(network, endpoint):
        result = target.runtime(args).add(network, endpoint, cleanup=args.cleanup)
    print_result(result, as_json=args.json)
    return 0
