"""What looks share: the node's report, its journal, its networks; each asked for once, and only if needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cached_property

from ...cni import CNIError
from ...ipam import Pool
from ...journal import Attachment, Ledger
from ...kernel import Namespace, Plan
from ...kernel.features import Availability
from ...kernel.uplink import Uplink, uplink
from ...networks.attachment import readable_plan
from ...ops.node.networks import NodeNetwork, node_networks
from ..failure import CommandFailed
from ..journal import copy_of_journal
from ..node_document import Status
from ..node_report import report


def _say_nothing(_: str) -> None:
    return


class Ground:
    """`tell` takes how far a look has come, for whoever waits."""

    def __init__(
        self, args: argparse.Namespace, host: Namespace, tell: Callable[[str], None] = _say_nothing
    ) -> None:
        self.args = args
        self.host = host
        self.tell = tell
        # What the kernel can do, if somebody has looked.
        self.features: list[Availability] = []

    @cached_property
    def report(self) -> Status:
        return report(self.args)

    @cached_property
    def ledger(self) -> Ledger | None:
        """A copy; None if there is no journal, or none that can be read: the node's look tells of that."""
        try:
            return copy_of_journal(self.args)
        except CommandFailed:
            return None

    @cached_property
    def attachments(self) -> list[Attachment]:
        return [] if self.ledger is None else list(self.ledger.attachments())

    @cached_property
    def plans(self) -> dict[int, Plan]:
        """Of the attachments whose plans can be read, by their numbers."""
        found = ((row.id, readable_plan(row)) for row in self.attachments)
        return {number: plan for number, plan in found if plan is not None}

    @cached_property
    def networks(self) -> list[NodeNetwork]:
        try:
            return node_networks(self.args.conf_dir)
        except CNIError:
            return []

    @cached_property
    def pools(self) -> list[Pool]:
        """A pool that several networks share is there once."""
        pools = (pool for it in self.networks if it.network for pool in it.network.pools)
        return list({pool.cidr: pool for pool in pools}.values())

    @cached_property
    def uplink(self) -> Uplink | None:
        return uplink(self.host)

    @property
    def is_node(self) -> bool:
        """Whether netloom has anything to do with this machine yet."""
        return self.ledger is not None or bool(self.networks) or self.report.agent is not None
