"""Firewalls of others that drop what one attachment needs."""

from __future__ import annotations

from ...api.findings import Finding
from ...journal import Attachment, Ledger
from ...kernel import KernelError, Namespace
from ...networks.attachment import addresses_of
from ...ops.firewall.flows import around, flows_of
from ...ops.firewall.judging import findings_of

# Seconds. What takes longer is left to `netloom doctor`.
_LONGEST = 1.0


def firewalls_of(row: Attachment, ledger: Ledger, host: Namespace) -> list[Finding]:
    """Of its own addresses and its own link, in the words of `doctor`."""
    addresses = [(f"{it}/{128 if ':' in it else 32}", False) for it in addresses_of(row.result)]
    has_ports = any(number == row.id for number, _ in ledger.ports())
    try:
        about = around(host, addresses, has_ports=has_ports)
        return findings_of(host, flows_of(about, row.host_link), _LONGEST)
    except (KernelError, OSError):
        return []
