"""A pair of links: packets that enter one leave the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..errors import Conflict, Difference, Refused, compare
from ..netlink import link, nsid
from ..netlink.connection import NetlinkConnection
from ..values import require_link_name, require_mac, require_range
from .base import LinkDeletion, LinkName, Scope, Undo, Where
from .link import LinkObject, find


class Veth(LinkObject, frozen=True, tag="veth"):
    """A pair whose peer is created in its namespace; both ends are created and deleted together.

    By default, the kernel makes `queues` for every possible CPU and uses one of them. That costs 0.05 ms per
    pair on two CPUs, and more with more CPUs.
    """

    name: str
    peer: str
    peer_on: Where = "attachment"
    peer_mac: str | None = None
    queues: int = 1

    kind: ClassVar[str] = "veth"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_link_name(self.peer)
        require_mac(self.peer_mac)
        require_range("queues", self.queues, 1, 4096)

    def places(self) -> Iterable[Where]:
        return (self.on, self.peer_on)

    def settle(self, scope: Scope) -> None:
        """Queries both ends, so that the end that came up first may send at once.

        Otherwise it learns of the other end only some time later, and one in a hundred of the first packets
        to a container was lost.
        """
        for where, name in self.makes():
            scope.at(where).route.settle(name)

    def makes(self) -> Iterable[LinkName]:
        return ((self.on, self.name), (self.peer_on, self.peer))

    def _common(self, connection: NetlinkConnection) -> bytes:
        return super()._common(connection) + link.properties(queues=self.queues)

    def data(self, scope: Scope) -> bytes:
        peer = link.properties(
            name=self.peer, mac=self.peer_mac, mtu=self.mtu, txqlen=self.txqlen, queues=self.queues
        )
        netns = None if self.peer_on == self.on else scope.at(self.peer_on).fileno()
        return link.veth_peer(peer, netns)

    def _keep_or_explain(self, scope: Scope, refused: Refused) -> Undo | None:
        """The kernel says "exists" for either end, but not for which one."""
        if find(scope.at(self.on), self.name) is None and find(scope.at(self.peer_on), self.peer) is not None:
            where = "on the host" if self.peer_on == "host" else f"in the {self.peer_on}'s namespace"
            raise Conflict(compare(self.label, (f"{self.peer} {where}", "its other end", "another link")))
        return super()._keep_or_explain(scope, refused)

    def plan_differences(self, found: link.Link, scope: Scope) -> list[Difference]:
        differences = super().plan_differences(found, scope)
        peer = find(scope.at(self.peer_on), self.peer)
        if (
            peer is None
            or (peer.name, peer.kind) != (self.peer, "veth")
            or not self._are_joined(found, peer, scope)
        ):
            return [*differences, *compare(self.label, ("peer", self.peer, "another link"))]
        fields: tuple[tuple[str, object, object], ...] = (
            ("peer's mac", self.peer_mac, peer.mac),
            ("peer's mtu", self.mtu, peer.mtu),
            ("peer's txqlen", self.txqlen, peer.txqlen),
        )
        return differences + compare(self.label, *(field for field in fields if field[1] is not None))

    def remove(self, scope: Scope) -> LinkDeletion | None:
        departure = super().remove(scope)
        if departure is None or self.mac is not None or not scope.has(self.peer_on):
            return departure
        strange = [found for found in self.check(scope) if found.field == "peer"]
        if strange:
            raise Conflict(strange)
        return departure

    def _are_joined(self, found: link.Link, peer: link.Link, scope: Scope) -> bool:
        """Says whether each end names the other by index and namespace: indexes repeat in namespaces."""
        if (found.parent, peer.parent) != (peer.index, found.index):
            return False
        if self.peer_on == self.on:
            return found.parent_netnsid is None
        answer = scope.at(self.on).route.ask(nsid.GET, nsid.of(scope.at(self.peer_on).fileno()))
        return answer is not None and nsid.decode(answer) == found.parent_netnsid
