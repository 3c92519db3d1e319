"""List the attachments in the result cache, which netloom, cnitool and container runtimes share.

examples:
  netloom cni attachments
  netloom cni attachments --container web-1 --json
"""

from __future__ import annotations

import argparse
from typing import Annotated

from msgspec import Meta, Struct

from ....cni import Runtime
from ...arguments import add_json
from ...terminal.output import say
from ...terminal.tables import print_json, table
from . import target


class Cached(Struct, frozen=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """An attachment whose result is in the cache."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    netns: Annotated[str, Meta(description="path of its namespace; empty if it was not recorded")]


OUTPUT = list[Cached]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--container", metavar="ID", default="", help="container whose attachments to list (default: all)"
    )
    target.add_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = Runtime([], cache_dir=args.cache_dir).attachments(args.container)
    if not args.json:
        rows = [[it.network, it.container_id, it.ifname, it.netns or "-"] for it in found]
        say(*table(rows, ["NETWORK", "CONTAINER", "INTERFACE", "NETNS"]))
    else:
        print_json([Cached(it.network, it.container_id, it.ifname, it.netns) for it in found])
    return 0
