"""The agent's RPCs. Arguments and answers are JSON."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ... import __version__
from ...api import protocol
from ...api.protocol import Info
from ...journal import Ledger
from ...kernel.values import shown_ip
from ...networks.table import TABLE
from ...ops.node.orphans import in_order
from ..findings import findings_of
from ..node import Node
from ..reconcile.on_request import collect_now, repair

if TYPE_CHECKING:
    from ..node import Node


async def settle(node: Node, _: bytes) -> bytes:
    await node.journal.flush()
    return b"{}"


async def unwritten(node: Node, _: bytes) -> bytes:
    return msgspec.json.encode(node.journal.unwritten())


async def info(node: Node, _: bytes) -> bytes:
    await node.journal_keeper.prove()
    node.journal_keeper.check()
    node.check_socket()
    counts = await node.journal.ask(Ledger.count)
    node.journal_keeper.check()  # a copy may have been written meanwhile
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
            started=node.tally.started,
            attachments={str(state): count for state, count in counts.items()},
            intents=len(protocol.waiting(node.settings.intents)),
            under_way=node.dataplane.under_way,
            troubles=[
                *node.conditions.failures.values(),
                *([node.journal.trouble] if node.journal.trouble else []),
            ],
            findings=[*findings_of(node), *await node.firewalls.current()],
            has_journal=has_journal,
            journal_at="" if has_journal else node.journal.where(),
            orphans={link: list(map(shown_ip, in_order(ips))) for link, ips in node.host.orphans.items()},
            counters=dict(sorted(node.tally.counters.items())),
        )
    )


Rpc: TypeAlias = Callable[["Node", bytes], Awaitable[bytes]]

RPCS: Mapping[str, Rpc] = {
    "collect": collect_now,
    "info": info,
    "repair": repair,
    "settle": settle,
    "unwritten": unwritten,
}
