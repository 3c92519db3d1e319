"""Attachments whose address another machine beside the host has, too, or the host itself since their ADD.

The host's route to the container is narrower than the one to the machine: so the host, and every container
on it, reaches the container instead. Of its own address, the host keeps all packets.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...api.catalogue import ENTRIES
from ...api.findings import Finding
from ...journal import Attachment, Ledger
from ...kernel.values import shown_ip
from ...networks.host import Host
from ...networks.scope import SCOPE

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

CODE = "address-clash"


def clashes(ledger: Ledger, host: Host) -> list[Finding]:
    """One for each address. What takes the host's own way out or its DNS is an error."""
    found = []
    for ip, number in ledger.holders(SCOPE, host.reserved).items():
        attachment = ledger.by_id(number)
        machine = host.neighbours.get(ip)
        if machine is not None and machine.role == "routed" and ip not in host.addresses:
            continue  # a route in the place of the container's own, which is told as `route-diverted`
        if attachment is not None:
            found.append(_of_own(attachment, ip) if ip in host.addresses else _of_other(attachment, ip, host))
    return found


def _of_own(attachment: Attachment, ip: bytes) -> Finding:
    return Finding(
        code=CODE,
        subject=shown_ip(ip),
        text=f"{attachment.key} has {shown_ip(ip)}, and this host has it, too: packets for the container "
        "stay on the host",
        next=f"remove the address from the host (`ip address show to {shown_ip(ip)}` names the link), or "
        "detach the container and attach it again",
    )


def _of_other(attachment: Attachment, ip: bytes, host: Host) -> Finding:
    return Finding(
        code=CODE,
        severity="warning" if host.neighbours[ip].role == "neighbour" else "error",
        subject=shown_ip(ip),
        text=f"{attachment.key} has {shown_ip(ip)}, and {host.neighbour_with(ip)} has it, too: "
        "this host reaches the container instead",
        next=ENTRIES[CODE].remedy,
    )
