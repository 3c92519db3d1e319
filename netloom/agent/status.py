"""STATUS: whether an ADD would work now, and if not, why. Cheap: it is polled every few seconds."""

from __future__ import annotations

import os

from ..cni import CNIError, NotAvailable
from ..cni.skel import Request
from ..ipam import SqlHoldings, would_allocate
from ..journal import boottime
from .network import Network, network_of
from .node import Node
from .reservation import SCOPE

# Less free space than this, and the journal is about to be unwritable.
_SPACE = 1 << 20


async def status(node: Node, request: Request) -> None:
    try:
        network = network_of(request)
    except CNIError as error:
        raise NotAvailable(f"the network's configuration cannot work: {error}") from None
    reasons = list(node.troubles.values())
    if node.journal.trouble:
        reasons.append(node.journal.trouble)
    space = os.statvfs(node.settings.state_dir)
    if space.f_bavail * space.f_frsize < _SPACE:
        reasons.append(f"the disk of {node.settings.state_dir} is full")
    lacking = node.host.lacks(network.pools, network.mtu)
    if lacking:
        reasons.append(lacking)
    if not reasons:
        reasons = _lack_of_addresses(node, network)
    if reasons:
        raise NotAvailable("; ".join(reasons), "`netloom status` tells more")


def _lack_of_addresses(node: Node, network: Network) -> list[str]:
    lacking = node.journal.look(
        lambda ledger: would_allocate(
            network.pools,
            SqlHoldings(ledger.connection, node.host.addresses),
            scope=SCOPE,
            now=boottime(),
            cooldown=network.cooldown,
        )
    )
    return [lacking] if lacking else []
