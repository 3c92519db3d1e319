"""Ask the plugins whether an attachment still is as its ADD left it. Silent if it is.

examples:
  netloom cni check mynet /run/netns/web && echo fine
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
    target.runtime(args).check(network, target.endpoint(args))
    return 0
