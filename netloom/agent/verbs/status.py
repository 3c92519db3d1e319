"""STATUS: fails with the reasons why an ADD would fail now. It must be cheap: runtimes poll it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...cni import CNIError, NotAvailable
from ...cni.skel import Request
from ...ipam import Shortage
from ...networks.config import network_of
from ...networks.host import Lack
from ...ops.health.node import full_disk_text, is_full
from ...ops.health.pools import shortage_of

if TYPE_CHECKING:
    from ..node import Node


async def status(node: Node, request: Request) -> None:
    try:
        network = network_of(request)
    except CNIError as error:
        what = "the network's configuration cannot be used"
        raise NotAvailable(f"{what}: {error}", discreet=f"{what}: {error.discreet}") from None
    node.check_socket()
    reasons = list(node.conditions.failures.values())
    if node.journal.trouble:
        reasons.append(node.journal.trouble)
    if is_full(node.settings.state_dir):
        reasons.append(full_disk_text(node.settings.state_dir))
    reasons += [it.text for it in node.conditions.blocking(pool.family for pool in network.pools)]
    lacking: Lack | Shortage | None = node.host.lacks(network.pools, network.mtu)
    if lacking is None and not reasons:  # else the journal may not be readable
        lacking = node.journal.look(lambda ledger: shortage_of(network, node.host, ledger))
    if lacking is not None:
        reasons.append(str(lacking))
    if reasons:
        raise NotAvailable("; ".join(reasons), "`netloom status` shows details")
