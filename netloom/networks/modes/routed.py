"""The routed mode: a veth pair, with routes on both sides. `routed_plan` creates its objects.

This module must import little: `netloom status` needs the scope of every network, but no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..host import FORWARDING
from ..names import HOST4, SCOPE
from .base import Attached, Lost, Mode, NodeObject

if TYPE_CHECKING:
    from ...cni import Result
    from ...kernel import Plan
    from ..host import Host

GATEWAY4 = HOST4
GATEWAY6 = "fe80::1"


class Routed(Mode):
    name = "routed"
    next_hops = (GATEWAY4, GATEWAY6)

    def load(self) -> None:
        from . import routed_plan

        del routed_plan

    def scope(self, network: str) -> str:
        """Returns one scope for all networks: the host has a route to each address in its main table."""
        del network
        return SCOPE

    def plan(self, it: Attached) -> Plan:
        from . import routed_plan

        return routed_plan.plan(it)

    def result(self, it: Attached, netns: str, before: Result | None = None) -> Result:
        from . import routed_plan

        return routed_plan.result(it, netns, before)

    def remnants(self, it: Lost) -> Plan:
        from . import routed_plan

        return routed_plan.remnants(it)

    def adopt_mac(self, plan: Plan, mac: str) -> Plan:
        from . import routed_plan

        return routed_plan.with_mac(plan, mac)

    def addresses(self, plan: Plan) -> Sequence[bytes]:
        from . import routed_plan

        return routed_plan.addresses(plan)

    def node_objects(self, host: Host) -> Sequence[NodeObject]:
        """Forwarding and the next hop's address, for the families that the kernel supports."""
        from ...kernel import Sysctl
        from ..table import OWN_ADDRESSES

        families = (4, 6) if host.ipv6 else (4,)
        return [
            NodeObject(family, it)
            for family, address in zip((4, 6), OWN_ADDRESSES, strict=True)
            if family in families
            for it in (Sysctl(FORWARDING[family], "1"), address)
        ]


ROUTED = Routed()
