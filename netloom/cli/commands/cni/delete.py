"""Detach a namespace from a network. May be repeated; the namespace may be gone already.

If the network's file is gone or cannot be read, the configuration that ADD was given is used, with a warning.
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

from ....cni import CNIError, Endpoint, NetworkConfig, NetworkNotFound, Runtime, parse_network
from ....ops.cni_environment import container_id
from ....ops.errors import Advised
from ...arguments import add_json
from ...failure import warn
from . import target

OUTPUT = None

_UNKNOWN = (
    "mend the file that was passed over; of this attachment, no configuration is kept that could be used "
    "instead: `netloom ls --wide` lists what is attached, also by others"
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
        _warn_of_a_stranger(args, runtime, endpoint)
    runtime.delete(network, endpoint)
    return 0


def _network(args: argparse.Namespace, runtime: Runtime, endpoint: Endpoint) -> NetworkConfig:
    """As its file has it. A container must be able to go also if that cannot be read any more: then as its
    ADD was given it."""
    try:
        return target.network(args)
    except CNIError as error:
        network = _as_attached(args.network, runtime, endpoint)
        if network is None and isinstance(error, NetworkNotFound) and error.details:
            raise Advised(error, _UNKNOWN) from None
        if network is None:
            raise
        warn(args, f"{error}; the configuration that ADD was given is used, from {args.cache_dir}")
        return network


def _as_attached(name: str, runtime: Runtime, endpoint: Endpoint) -> NetworkConfig | None:
    try:
        for it in runtime.attachments(endpoint.container_id):
            if (it.network, it.ifname) == (name, endpoint.ifname):
                found = parse_network(it.config)
                return found if found.plugins and found.name == name else None
    except CNIError:
        pass  # that the file cannot be used says more
    return None


def _warn_of_a_stranger(args: argparse.Namespace, runtime: Runtime, endpoint: Endpoint) -> None:
    """A DEL of what nobody knows succeeds, as a runtime has to expect it; a person has misspelled it."""
    is_cached = target.is_cached(runtime, args.network, endpoint.container_id)
    if not is_cached and not os.path.exists(endpoint.netns):
        warn(
            args,
            f"there is no namespace {endpoint.netns}, and nothing is known of one on {args.network}; "
            "`netloom cni attachments` and `netloom ls --wide` list what is attached",
        )
