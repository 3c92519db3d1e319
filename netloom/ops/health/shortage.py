"""Whether one more container would find addresses."""

from __future__ import annotations

from ...ipam import Shortage, SqlHoldings, would_allocate
from ...journal import Ledger, boottime
from ...networks.attachment import SCOPE
from ...networks.config import Network
from ...networks.host import Host


def shortage_of(network: Network, host: Host, ledger: Ledger) -> Shortage | None:
    """Of addresses, if one more container would find none."""
    return would_allocate(
        network.pools,
        SqlHoldings(ledger.connection, host.taken(), host.orphaned()),
        scope=SCOPE,
        now=boottime(),
        cooldown=network.cooldown,
    )
