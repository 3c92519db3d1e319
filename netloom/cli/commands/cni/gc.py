"""Remove what belongs to no valid attachment: DEL for every cached one that is not named, then GC.

Without --valid, every attachment of the network that the cache knows is removed, as with cnitool.

examples:
  netloom cni gc mynet
  netloom cni gc mynet --valid web-1:eth0 --valid web-2:eth0
"""

from __future__ import annotations

import argparse

from ....cni import ValidAttachment
from ...arguments import add_json
from . import target

OUTPUT = None


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_network(parser)
    target.add_unused(parser)
    target.add_runtime(parser)
    parser.add_argument(
        "--valid",
        type=_valid,
        action="append",
        metavar="ID:IFNAME",
        help="an attachment to keep; may be given many times",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    network = target.network(args)
    target.runtime(args).gc(network, args.valid)
    return 0


def _valid(text: str) -> ValidAttachment:
    container_id, colon, ifname = text.rpartition(":")
    if not colon or not container_id or not ifname:
        raise argparse.ArgumentTypeError(f"{text!r} is not CONTAINERID:IFNAME")
    return ValidAttachment(container_id, ifname)
