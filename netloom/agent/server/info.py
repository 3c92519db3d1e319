"""The RPC `info`: what an agent says of itself."""

from __future__ import annotations

import os

import msgspec

from ... import __version__
from ...api import intents
from ...api.info import Info
from ...journal import Ledger
from ...kernel.values import shown_ip
from ...networks.table import TABLE
from ...ops.node.orphans import in_order
from ..findings import findings_of
from ..node import Node


async def info(node: Node, _: bytes) -> bytes:
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
            intents=len(intents.waiting(node.settings.intents)),
            under_way=node.dataplane.under_way,
            troubles=[*node.troubles.values(), *([node.journal.trouble] if node.journal.trouble else [])],
            findings=[*findings_of(node), *await node.firewalls.current()],
            has_journal=has_journal,
            journal_at="" if has_journal else node.journal.where(),
            orphans={link: list(map(shown_ip, in_order(ips))) for link, ips in node.host.orphans.items()},
            counters=dict(sorted(node.counters.items())),
        )
    )
