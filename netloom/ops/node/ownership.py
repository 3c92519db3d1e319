"""Whether this network namespace is another agent's: one with its own state directory and its own journal.

The table's mark tells (`networks.owner`). The same state directory is the same agent, even with a new
journal. The same journal in another directory is the same agent, which was moved; or its journal was copied,
and the first one is still there. So the agent gives such a journal a new identity, and the node is its own
from then on. Without links of netloom there is nothing that could be taken from the other one, unless it
runs.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from msgspec import Struct

from ...cni.files import is_same_path
from ...journal import JournalError, Ledger, read_only
from ...journal.lock import holder
from ...kernel import Namespace
from ...kernel.netlink.nftables import delete_chain, read_comments, read_table
from ...kernel.objects.link import link_names
from ...kernel.objects.nft import OWNER as OURS
from ...networks import names, table
from ...networks.owner import Owner, owner_of

CODE = "node-of-another"
# Of the journal's facts.
IDENTITY = "identity"


class Another(Struct, frozen=True):
    """The agent that the node belongs to. `process` is None if it does not run, or cannot be seen."""

    state_dir: str
    process: int | None

    def text(self) -> str:
        runs = "which does not run" if self.process is None else f"which runs (process {self.process})"
        return (
            f"this host's nft table and links belong to the agent with its state in {self.state_dir}, {runs}"
        )

    def advice(self, state_dir: str) -> str:
        theirs = self.state_dir
        if self.process is not None:
            return f"use that one: give --state-dir {theirs}; `netloom down --state-dir {theirs}` stops it"
        return (
            f"`netloom up --state-dir {theirs}` starts that one again; to go on from {state_dir} with its "
            f"journal, `netloom journal restore --state-dir {state_dir} {theirs}/journal.db`, `netloom up "
            f"--state-dir {state_dir}`; without it, `netloom up --adopt --state-dir {state_dir}`: its "
            "containers keep their networks and become orphaned"
        )


class NodeOfAnother(Exception):
    """Raised before anything was changed."""

    def __init__(self, another: Another) -> None:
        super().__init__(another.text())
        self.another = another


def mark_at(host: Namespace) -> Owner | None:
    """Whose the table is; None if there is none of ours, or it does not say."""
    of = table.TABLE
    if not (read_table(host.netfilter, of.family, of.name) or "").startswith(OURS):
        return None
    return owner_of(read_comments(host.netfilter, of.family, of.name, table.OWNER))


def another_at(host: Namespace, state_dir: str, identity: str | None) -> Another | None:
    """The agent that the node belongs to, if that is not the one with this state directory and journal."""
    mark = mark_at(host)
    if mark is None or is_same_path(mark.state_dir, state_dir):
        return None
    process = holder(os.path.join(mark.state_dir, "journal.db"))
    if process is None and (identity == mark.journal or not _has_links(host)):
        return None
    return Another(mark.state_dir, process)


def is_as_marked(host: Namespace, state_dir: str, identity: str | None) -> bool:
    """Whether the mark, if there is one, names this state directory and this journal."""
    mark = mark_at(host)
    return mark is None or (is_same_path(mark.state_dir, state_dir) and mark.journal == identity)


def identity_of(path: str) -> str | None:
    """Of the journal at a path, if it can be read: whoever opens it later says what is wrong."""
    try:
        with closing(read_only(path)) as connection:
            return Ledger(connection).fact(IDENTITY)
    except (JournalError, sqlite3.DatabaseError, OSError):
        return None


def adopt(host: Namespace) -> None:
    """The node is nobody's from now on, and becomes that of the next agent."""
    of = table.TABLE
    delete_chain(host.netfilter, of.family, of.name, table.OWNER, members=False)


def _has_links(host: Namespace) -> bool:
    return any(names.host_link_of(it) == it for it in link_names(host))
