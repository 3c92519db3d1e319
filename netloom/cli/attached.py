"""Which networks have attachments, for commands that go on where the journal cannot be read."""

from __future__ import annotations

import argparse
from collections import Counter

from ..journal.search import networks_attached
from .failure import CommandFailed
from .journal import ledger


def networks_attached_of(args: argparse.Namespace) -> Counter[str]:
    """How many attachments each network has; none of a journal that cannot be read, of which others tell."""
    try:
        with ledger(args) as journal:
            return networks_attached(journal) if journal else Counter()
    except CommandFailed:
        return Counter()
