"""Rules as a tracer sees them, the same for both packet filters of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from .field import Truth
from .packet import Hook, Layer, Marks, Packet

Kind: TypeAlias = Literal["accept", "drop", "jump", "goto", "return", "unclear"]
Backend: TypeAlias = Literal["nft", "legacy"]

# Table families that packets pass.
_SEE: Mapping[Layer, tuple[str, ...]] = {
    4: ("ip", "inet", "netdev"),
    6: ("ip6", "inet", "netdev"),
    "arp": ("arp", "netdev"),
}
# How many devices of a chain a text names.
_SHOWN = 3


class Action(NamedTuple):
    """What a rule does with a matching packet. `unclear` may be any action: a program decides."""

    kind: Kind
    chain: str = ""


class FirewallRule(Protocol):
    @property
    def number(self) -> int:
        """The handle of an nftables rule; for iptables-legacy, its position in the chain."""

    def evaluate(self, packet: Packet, marks: Marks, *, sure: bool) -> Sequence[tuple[Truth, Action]]:
        """Yields the possible actions in the order of their decision. `sure` says whether it is certainly
        reached.
        """


class BaseChain(Struct, frozen=True):
    """A chain that the kernel itself calls. `family` is that of its table: ip, ip6, inet, arp or netdev.

    `devices` are the links of an `ingress` or `egress` chain; one that ends in `*` is a prefix.
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
        """Says whether the link is one of its devices."""
        return any(link.startswith(it[:-1]) if it.endswith("*") else link == it for it in self.devices)


class PacketFilter(Protocol):
    """One of the kernel's packet filters, in one namespace."""

    def bases(self) -> Sequence[BaseChain]: ...

    def rules(self, base: BaseChain, chain: str) -> Sequence[FirewallRule]:
        """Returns the rules of a chain in the table of `base`."""
