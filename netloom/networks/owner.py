"""Whose the node's table is: a chain without effect beside it names the agent's state directory in comments.

Two agents with state directories of their own would take each other's links and elements for nobody's. So
the second one reads this mark, and refuses. It is laid down with the table, in one transaction, and is no
part of what the table is compared with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from ..kernel import NftChain
from . import table

# A comment has up to 127 bytes.
_PIECE = 100
_STATE, _MORE, _JOURNAL = "state directory ", "... ", "journal "
# Readable in nearly every path, and harmless between quotes.
_PLAIN = "/ :,;@+=()"


class Owner(Struct, frozen=True):
    """`journal` is its identity, which a file that is moved or copied has, too; empty: not known."""

    state_dir: str
    journal: str = ""


def chain(owner: Owner) -> NftChain:
    path = quote(os.fsencode(owner.state_dir), safe=_PLAIN)
    pieces = [path[start : start + _PIECE] for start in range(0, len(path), _PIECE)]
    remarks = [_STATE + pieces[0], *(_MORE + it for it in pieces[1:]), _JOURNAL + owner.journal]
    return table.chain(table.OWNER, [f'continue comment "{it}"' for it in remarks])


def owner_of(remarks: Iterable[str]) -> Owner | None:
    """From the comments of the chain's rules; None if they do not name one."""
    path, journal = "", ""
    for it in remarks:
        for prefix in (_STATE, _MORE):
            path += it.removeprefix(prefix) if it.startswith(prefix) else ""
        journal = it.removeprefix(_JOURNAL) if it.startswith(_JOURNAL) else journal
    return Owner(os.fsdecode(unquote_to_bytes(path)), journal) if path else None
