"""Ask the plugins of a network whether they could attach something now. Silent if they could.

examples:
  netloom cni status mynet && echo ready
"""

from __future__ import annotations

import argparse

from ..arguments import add_json
from . import target


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_network(parser)
    target.add_unused(parser)
    target.add_runtime(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    network = target.network(args)
    target.runtime(args).status(network)
    return 0
