"""Check with the plugins that an attachment is still as its ADD left it. Prints nothing if it is.

examples:
  netloom cni check mynet /run/netns/web && echo fine
"""

from __future__ import annotations

import argparse

from ....cni import InternalError, InvalidConfig, PluginFailed, PluginNotFound, UnknownContainer
from ....ops.errors import Advised
from ...arguments import add_json
from . import target

OUTPUT = None


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_attachment(parser)
    target.add_runtime(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    network, runtime, endpoint = target.network(args), target.runtime(args), target.endpoint(args)
    try:
        runtime.check(network, endpoint)
    except (InvalidConfig, UnknownContainer, PluginFailed, InternalError) as error:
        if isinstance(error, PluginNotFound) or target.is_cached(
            runtime, network.name, endpoint.container_id, endpoint.ifname
        ):
            raise
        raise Advised(error, "attach it first, with `netloom cni add`") from None
    return 0
