"""What a row of the tables is, and the links that many rows stand on."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from netloom.kernel import (
    Address,
    AnyObject,
    Bridge,
    Up,
    Veth,
    Vxlan,
)
from netloom.kernel.objects import Where

# What `remove` does after the drift: it takes the object away; it finds nothing of ours, and leaves
# what is there; or it says that what is there is not ours, and leaves it.
Removal: TypeAlias = Literal["gone", "left", "conflict"]


class Drift(NamedTuple):
    """Something that a person does, what `check` must say of it, and what `remove` then does."""

    by_hand: str | tuple[str, ...]
    fields: tuple[str, ...]  # that differ; none: the object is missing
    removal: Removal = "gone"
    where: Where = "host"

    @property
    def commands(self) -> tuple[str, ...]:
        return (self.by_hand,) if isinstance(self.by_hand, str) else self.by_hand


class Row(NamedTuple):
    name: str
    object: AnyObject
    drifts: tuple[Drift, ...]
    setup: tuple[AnyObject, ...] = ()
    stays: bool = False  # removal leaves it, on purpose
    by_hand: tuple[str, ...] = ()  # before the setup


def gone(by_hand: str | tuple[str, ...], *fields: str, where: Where = "host") -> Drift:
    return Drift(by_hand, fields, "gone", where)


def left(by_hand: str | tuple[str, ...], *fields: str, where: Where = "host") -> Drift:
    return Drift(by_hand, fields, "left", where)


def conflict(by_hand: str | tuple[str, ...], *fields: str, where: Where = "host") -> Drift:
    return Drift(by_hand, fields, "conflict", where)


MAC, PEER_MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:99"
PAIR = Veth("nl1", "eth0", mac=MAC, peer_mac=PEER_MAC)
PAIR_UP = (PAIR, Up("nl1"), Up("eth0", on="attachment"))
SECOND = Veth("nl2", "eth1", mac="02:00:00:00:00:03", peer_mac="02:00:00:00:00:04")
BOTH_UP = (*PAIR_UP, SECOND, Up("nl2"), Up("eth1", on="attachment"))
NET4, NET6 = Address("nl1", "10.0.0.1/24"), Address("nl1", "fd00::1/64")
ROUTABLE = (*PAIR_UP, NET4, NET6)
BRIDGE = Bridge("br1", mac="02:00:00:00:01:01")
TUNNEL = Vxlan("vx1", 7, local="192.0.2.1", mac=MAC)
TUNNEL6 = Vxlan("vx1", 7, local="2001:db8::1", mac=MAC)
