"""Rules as a tracer sees them, of whichever of the kernel's two packet filters they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from .field import Truth
from .packet import Hook, Layer, Marks, Packet

Kind: TypeAlias = Literal["accept", "drop", "jump", "goto", "return", "unclear"]
Backend: TypeAlias = Literal["nft", "legacy"]

# Families of tables that packets pass.
_SEE: Mapping[Layer, tuple[str, ...]] = {
    4: ("ip", "inet", "netdev"),
    6: ("ip6", "inet", "netdev"),
    "arp": ("arp", "netdev"),
}
# Devices of a chain that are named to people.
_SHOWN = 3


class Action(NamedTuple):
    """What a rule does with a packet that it matches. `unclear` may be anything: a program decides."""

    kind: Kind
    chain: str = ""


class FirewallRule(Protocol):
    @property
    def number(self) -> int:
        """The handle of a rule of nftables; of iptables-legacy, its place in the chain."""

    def evaluate(self, packet: Packet, marks: Marks, *, sure: bool) -> Sequence[tuple[Truth, Action]]:
        """What it may do, in the order in which it is decided. `sure` is whether it is reached for sure."""


class BaseChain(Struct, frozen=True):
    """A chain that the kernel itself calls. `family` is that of its table: ip, ip6, inet, arp or netdev.

    `devices` are the links of a chain of `ingress` or `egress`; one that ends in `*` is a prefix.
    """

    backend: Backend
    family: str
    table: str
    name: str
    hook: Hook
    priority: int
    policy: Literal["accept", "drop"]
    devices: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        if self.backend == "nft":
            return f"{self.family} {self.table} {self.name}"
        return f"{'iptables' if self.family == 'ip' else 'ip6tables'}-legacy {self.table} {self.name}"

    def __str__(self) -> str:
        of = f"table {self.family} {self.table}" if self.backend == "nft" else self.subject.split()[0]
        table = "" if self.backend == "nft" else f", table {self.table}"
        return f"{of}{table}, chain {self.name} (hook {self.hook}{self._shown()}, policy {self.policy})"

    def _shown(self) -> str:
        if not self.devices:
            return ""
        more = f" and {len(self.devices) - _SHOWN} more" if len(self.devices) > _SHOWN else ""
        kind = "device" if len(self.devices) == 1 else "devices"
        return f" {kind} {', '.join(self.devices[:_SHOWN])}{more}"

    def sees(self, layer: Layer) -> bool:
        return self.family in _SEE[layer]

    def is_of(self, link: str) -> bool:
        """Whether the link is one of its devices."""
        return any(link.startswith(it[:-1]) if it.endswith("*") else link == it for it in self.devices)


class PacketFilter(Protocol):
    """One of the kernel's packet filters, in one namespace."""

    def bases(self) -> Sequence[BaseChain]: ...

    def rules(self, base: BaseChain, chain: str) -> Sequence[FirewallRule]:
        """Those of a chain in the table of `base`."""
