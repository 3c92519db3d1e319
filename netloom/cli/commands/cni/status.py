"""Ask the plugins of a network whether they could attach something now. Silent if they could.

A network whose cniVersion is below 1.1.0 has no such question: nobody is asked, and stderr says so.

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
            f"no plugin was asked: STATUS is part of CNI from {versions.STATUS_SINCE} on, and "
            f'{network.name} has cniVersion "{network.cni_version}". `netloom cni validate {network.name}` '
            "checks the configuration, `netloom status` the agent of netloom's own networks",
        )
    target.runtime(args).status(network)
    return 0


def _has_status(version: str) -> bool:
    """As the runtime decides it: a version that cannot be read has nothing that is new."""
    try:
        return versions.at_least(version, versions.STATUS_SINCE)
    except CNIError:
        return False
