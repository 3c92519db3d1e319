"""Delete attachments that are not valid: DEL for every cached attachment except those of --valid, then GC.

Without --valid, the command deletes every attachment of the network that is in the cache, as cnitool does.

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
        help="attachment to keep; repeatable",
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
