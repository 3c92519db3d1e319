"""Every error and finding that netloom can report, by its code: what it means, and what to do.

The pages of the reference are generated from these entries, and `netloom explain CODE` prints them. The code
that raises an error knows only its code, so that readers find the same words everywhere. An ADD must not
import this package.
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
