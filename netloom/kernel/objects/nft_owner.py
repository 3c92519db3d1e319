"""Whose a table of nftables is: netloom puts nothing into somebody else's."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..difference import compare
from ..errors import Conflict
from ..namespace import Namespace
from ..netlink import nftables

Family: TypeAlias = Literal["inet", "ip", "ip6", "arp", "bridge", "netdev"]

# A table whose comment begins so is ours. What follows says which plan's it is.
OWNER = "made by netloom"


def is_ours(namespace: Namespace, family: Family, table: str) -> bool:
    """Whether it is there. Somebody else's is a `Conflict`."""
    comment = nftables.read_table(namespace.netfilter, family, table)
    if comment is not None and not comment.startswith(OWNER):
        raise Conflict(compare(f"nft table {family} {table}", ("owner", OWNER, comment or "nobody")))
    return comment is not None
