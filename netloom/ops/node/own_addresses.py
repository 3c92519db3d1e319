"""The addresses that every node has: containers reach the host by them, and it answers for them."""

from __future__ import annotations

from collections.abc import Sequence

from ...api.findings import Finding
from ...kernel import Difference, Route
from ...networks import table

ADDRESSES: dict[int, Route] = dict(zip((4, 6), table.OWN_ADDRESSES, strict=True))

_LOST = {
    4: "Host ports on 127.0.0.1 do not work, nor do containers that call their own host port or resolve "
    "their next hop",
    6: "Host ports on ::1 do not work, nor do containers that call their own host port over IPv6",
}


def address_missing(family: int, why: str) -> Finding:
    """`why` is what the kernel says, as the end of a sentence."""
    address = ADDRESSES[family].destination.partition("/")[0]
    switch = ""
    if family == 6:
        switch = "if IPv6 is switched off on lo, `sysctl -w net.ipv6.conf.lo.disable_ipv6=0`; else "
    return Finding(
        code="node-address-missing",
        subject=address,
        text=f"the host does not have {address}, which every node of netloom has: {why}. {_LOST[family]}",
        next=f"{switch}`ip route show table local` shows what is in its place: remove that; the agent adds "
        "the address within a second",
    )


def is_local(differences: Sequence[Difference]) -> bool:
    """Whether the host has the address after all, on another link than lo: it answers for it there, too."""
    return all(it.what == "different" and it.field == "way" for it in differences)
