"""Ask the plugins of a network whether they are ready for an ADD. Prints nothing if they are.

CNI versions below 1.1.0 have no STATUS: for a network with such a cniVersion, the command asks no plugin, and
warns on stderr.

examples:
  netloom cni status mynet && echo ready
"""

from __future__ import annotations

import argparse

from ....cni import CNIError, versions
from ...arguments import add_json
from ...failure import warn
from . import target

OUTPUT = None


def arguments(parser: argparse.ArgumentParser) -> None:
    target.add_network(parser)
    target.add_unused(parser)
    target.add_runtime(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    network = target.network(args)
    if not _has_status(network.cni_version):
        warn(
            args,
            f"no plugin was asked: STATUS needs CNI {versions.STATUS_SINCE}, and "
            f'{network.name} has cniVersion "{network.cni_version}". `netloom cni validate {network.name}` '
            "checks the configuration, `netloom status` the agent of netloom's own networks",
        )
    target.runtime(args).status(network)
    return 0


def _has_status(version: str) -> bool:
    """Decides as the runtime does: an invalid version counts as an old one."""
    try:
        return versions.at_least(version, versions.STATUS_SINCE)
    except CNIError:
        return False
