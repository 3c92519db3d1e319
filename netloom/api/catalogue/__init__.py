"""Every error and every finding that netloom can give, by its code: what it means, and what to do.

The pages of the reference are made from it, and `netloom explain CODE` prints the same without a browser.
Who raises an error knows the code; who reads it finds the same words everywhere. Nothing here is imported
on the way of an ADD.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import attachments, cni, commands, networks, node
from .entry import Entry

__all__ = ["ENTRIES", "Entry", "entry"]

ALL = (
    *cni.ENTRIES,
    *commands.ENTRIES,
    *node.ENTRIES,
    *networks.ENTRIES,
    *attachments.ENTRIES,
)

ENTRIES: Mapping[str, Entry] = {it.code: it for it in ALL}


def entry(code: str | int) -> Entry | None:
    return ENTRIES.get(str(code))
