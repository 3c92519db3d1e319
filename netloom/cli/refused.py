"""Packets of attachments that the node's table has dropped, because their source was not the sender's own."""

from __future__ import annotations

from typing import NamedTuple

from ..api.findings import Finding
from ..journal import Attachment
from ..kernel import KernelError, Namespace
from ..kernel.netlink.nftables import read_counted
from ..networks import table

# A finding tells of packets that were dropped this lately, in seconds.
_RECENT = 600


class Refused(NamedTuple):
    """How many, and how many seconds ago the last of them was."""

    packets: int
    ago: float


def refused_at(host: Namespace) -> dict[str, Refused] | None:
    """By the host's end of the attachment; None if the table does not count them."""
    of = table.TABLE
    try:
        found = read_counted(host.netfilter, of.family, of.name, table.DROPPED)
    except KernelError:
        return None
    if found is None:
        return None
    return {
        link: Refused(it.packets, max(table.KEPT - it.expires / 1000, 0.0)) for (link,), it in found.items()
    }


def refusals(row: Attachment, found: Refused | None) -> list[Finding]:
    if found is None or found.ago > _RECENT:
        return []
    many = "1 packet" if found.packets == 1 else f"{found.packets} packets"
    return [
        Finding(
            code="packets-refused",
            severity="warning",
            subject=str(row.key),
            text=f"{row.key}: the node's table dropped {many} that it sent, the last {found.ago:.0f} s ago: "
            "a container sends from its own addresses, and is no router",
            next=f"`tcpdump -ni {row.host_link}` shows what it sends",
        )
    ]
