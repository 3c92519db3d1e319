"""Detach a namespace from a network. Can be repeated, and works if the namespace does not exist any more.

If the network configuration is missing or cannot be read, the command warns, and uses the configuration of
the ADD. With --container-id, the command can detach the container of any runtime; `netloom ls --wide` lists
the IDs. The runtime does not learn of this, and repeats the DEL when it removes the container, which does no
harm.

examples:
  netloom cni del mynet web
  netloom cni del mynet /run/netns/web
  netloom cni del mynet /run/netns/cni-5f0c --container-id ea6e1eb0ff32 -i eth0
"""

from __future__ import annotations

import argparse
import os

from ....cni import CNIError, Endpoint, NetworkConfig, NetworkNotFound, Runtime, parse_network
from ....ops.cni_environment import container_id
from ....ops.errors import Advised
from ...arguments import add_json
from ...failure import warn
from . import target

OUTPUT = None

_UNKNOWN = (
    "correct the file that was skipped, since the cache has no configuration of this attachment; "
    "`netloom ls --wide` lists all attachments, also those of runtimes"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_attachment(parser)
    target.add_runtime(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    runtime = target.runtime(args)
    endpoint = target.endpoint(args, lambda path: target.is_cached(runtime, args.network, container_id(path)))
    network = _network(args, runtime, endpoint)
    if not args.container_id:
        _warn_if_unknown(args, runtime, endpoint)
    runtime.delete(network, endpoint)
    return 0


def _network(args: argparse.Namespace, runtime: Runtime, endpoint: Endpoint) -> NetworkConfig:
    """Loads the network from its file, else from the cache: a DEL must work without the file, too."""
    try:
        return target.network(args)
    except CNIError as error:
        network = _as_attached(args.network, runtime, endpoint)
        if network is None and isinstance(error, NetworkNotFound) and error.details:
            raise Advised(error, _UNKNOWN) from None
        if network is None:
            raise
        warn(args, f"{error}; using the configuration of the ADD, from {args.cache_dir}")
        return network


def _as_attached(name: str, runtime: Runtime, endpoint: Endpoint) -> NetworkConfig | None:
    try:
        for it in runtime.attachments(endpoint.container_id):
            if (it.network, it.ifname) == (name, endpoint.ifname):
                found = parse_network(it.config)
                return found if found.plugins and found.name == name else None
    except CNIError:
        pass  # the error about the network's file is more useful
    return None


def _warn_if_unknown(args: argparse.Namespace, runtime: Runtime, endpoint: Endpoint) -> None:
    """Warns of a likely misspelling: a DEL of an unknown attachment succeeds, as runtimes require."""
    is_cached = target.is_cached(runtime, args.network, endpoint.container_id)
    if not is_cached and not os.path.exists(endpoint.netns):
        warn(
            args,
            f"namespace {endpoint.netns} does not exist, and has no known attachment to {args.network}; "
            "`netloom cni attachments` and `netloom ls --wide` list attachments",
        )
