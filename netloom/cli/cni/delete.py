"""Detach a namespace from a network. May be repeated; the namespace may be gone already.

With --container-id, it can be the attachment of any runtime's container, as `netloom ls --wide` lists it. The
runtime is not told, and deletes it once more when the container goes; that is fine.

examples:
  netloom cni del mynet /run/netns/web
  netloom cni del mynet /run/netns/cni-5f0c --container-id ea6e1eb0ff32 -i eth0
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
