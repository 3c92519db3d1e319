"""What an agent says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .findings import Finding

if TYPE_CHECKING:
    pass


class Info(Struct, frozen=True, kw_only=True):
    """The answer to the question `info`. One of an older agent may lack what it did not know of."""

    version: str
    process: int
    state_dir: str = ""
    socket: str = ""
    boot_id: str = ""
    mtu: int = 0
    # Which nft table it lays down: another one is of another netloom, whatever its version says.
    table: str = ""
    started: float = 0.0
    attachments: Mapping[str, int] = {}
    intents: int = 0
    under_way: int = 0
    troubles: Sequence[str] = ()
    # The same, for programs.
    findings: Sequence[Finding] = ()
    # Whether the file at its path is the one that the agent writes.
    has_journal: bool = True
    # If it is not: where all of the journal can be had from by now, the file or a copy; empty: from nowhere.
    journal_at: str = ""
    # Links that are not in the journal, each with its addresses, which stay reserved.
    orphans: Mapping[str, Sequence[str]] = {}
    counters: Mapping[str, int] = {}
