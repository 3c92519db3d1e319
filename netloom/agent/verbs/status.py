"""STATUS: whether an ADD would work now, and if not, why. Cheap: it is polled every few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...cni import CNIError, NotAvailable
from ...cni.skel import Request
from ...networks.config import network_of
from .. import readiness

if TYPE_CHECKING:
    from ..node import Node


async def status(node: Node, request: Request) -> None:
    try:
        network = network_of(request)
    except CNIError as error:
        what = "the network's configuration cannot be used"
        raise NotAvailable(f"{what}: {error}", discreet=f"{what}: {error.discreet}") from None
    node.check_socket()
    node.journal_keeper.check()
    found = readiness.of_node(node)
    # A journal that cannot be written may not be able to count addresses either.
    found = found or readiness.of_network(node, request.network, "", network, node.journal.look)
    if found:
        raise NotAvailable("; ".join(it.text for it in found), "`netloom status` shows details")
