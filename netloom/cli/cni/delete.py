"""Detach a namespace from a network. May be repeated; the namespace may be gone already.

examples:
  netloom cni del mynet /run/netns/web
"""

from __future__ import annotations

import argparse

from ..arguments import add_json
from . import target


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_attachment(parser)
    target.add_runtime(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    network = target.network(args)
    target.runtime(args).delete(network, target.endpoint(args))
    return 0
