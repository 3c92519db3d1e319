"""What an agent says of itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from .. import __version__
from ..findings import Finding

if TYPE_CHECKING:
    from .node import Node


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


async def info(node: Node, _: bytes) -> bytes:
    # Whoever asks reads `Info` alone, and need not load what an agent is made of.
    from ..journal import Ledger
    from ..kernel.values import shown_ip
    from ..modes.table import TABLE
    from . import intent_files
    from .orphans import in_order
    from .troubles import findings_of

    await node.prove_journal()
    node.look_after_journal()
    node.look_at_socket()
    counts = await node.journal.ask(Ledger.count)
    node.look_after_journal()  # a copy may have been written meanwhile
    has_journal = node.journal.is_in_place()
    return msgspec.json.encode(
        Info(
            version=__version__,
            process=os.getpid(),
            state_dir=node.settings.state_dir,
            socket=node.settings.socket,
            boot_id=node.boot_id,
            mtu=node.host.mtu,
            table=TABLE.comment,
            started=node.started,
            attachments={str(state): count for state, count in counts.items()},
            intents=len(intent_files.waiting(node.settings.intents)),
            under_way=node.dataplane.under_way,
            troubles=[*node.troubles.values(), *([node.journal.trouble] if node.journal.trouble else [])],
            findings=[*findings_of(node), *await node.firewalls.current()],
            has_journal=has_journal,
            journal_at="" if has_journal else node.journal.where(),
            orphans={link: list(map(shown_ip, in_order(ips))) for link, ips in node.host.orphans.items()},
            counters=dict(sorted(node.counters.items())),
        )
    )
