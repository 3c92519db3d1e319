"""Detach a namespace from a network. May be repeated; the namespace may be gone already.

With --container-id, it can be the attachment of any runtime's container, as `netloom ls --wide` lists it. The
runtime is not told, and deletes it once more when the container goes; that is fine.

examples:
  netloom cni del mynet web
  netloom cni del mynet /run/netns/web
  netloom cni del mynet /run/netns/cni-5f0c --container-id ea6e1eb0ff32 -i eth0
"""

from __future__ import annotations

import argparse
import os

from ...cni import Endpoint, Runtime
from ..arguments import add_json
from ..failure import warn
from . import target

OUTPUT = None


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_attachment(parser)
    target.add_runtime(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    network = target.network(args)
    runtime = target.runtime(args)
    endpoint = target.endpoint(
        args, lambda path: target.is_cached(runtime, network.name, target.container_id(path))
    )
    if not args.container_id:
        _warn_of_a_stranger(args, runtime, endpoint)
    runtime.delete(network, endpoint)
    return 0


def _warn_of_a_stranger(args: argparse.Namespace, runtime: Runtime, endpoint: Endpoint) -> None:
    """A DEL of what nobody knows succeeds, as a runtime has to expect it; a person has misspelled it."""
    is_cached = target.is_cached(runtime, args.network, endpoint.container_id)
    if not is_cached and not os.path.exists(endpoint.netns):
        warn(
            args,
            f"there is no namespace {endpoint.netns}, and nothing is known of one on {args.network}; "
            "`netloom cni attachments` and `netloom ls --wide` list what is attached",
        )
