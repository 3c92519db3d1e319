"""What a network may want of its mode besides addresses: values alone.

How it is made of kernel objects is said in the module of each. Who reads a configuration, or asks how a node
is, needs these and no kernel objects, which would cost a command a fifth of its time.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Isolation: TypeAlias = Literal["none", "networks", "containers"]
Protocol: TypeAlias = Literal["tcp", "udp", "sctp"]

# As containers have it who were told "as much as you like": it would be seconds of no limit at all.
BOUNDLESS = (1 << 31) - 1
SLOWEST, FASTEST = 8_000, 400_000_000_000


class Limit(Struct, frozen=True):
    """Bits a second, and bits at once; without a burst, what suits the rate."""

    rate: int
    burst: int = 0


class Limits(Struct, frozen=True):
    """Of an attachment, as the container sees it: `ingress` is what it receives."""

    ingress: Limit | None = None
    egress: Limit | None = None


class Masquerade(Struct, frozen=True, kw_only=True):
    """For which families, and what else than the pools sees containers by their own addresses."""

    ipv4: bool = True
    ipv6: bool = True
    exceptions: tuple[str, ...] = ()

    def covers(self, address: str) -> bool:
        return self.ipv6 if ":" in address else self.ipv4


class HostPort(Struct, frozen=True, kw_only=True):
    """A port of the host, and the container's address and port that it leads to; both of one family.

    Without `host_ip`, all addresses of the host have it.
    """

    protocol: Protocol
    host_port: int
    ip: str
    port: int
    host_ip: str = ""

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.ip

    def __str__(self) -> str:
        host_ip = f"[{self.host_ip}]" if ":" in self.host_ip else self.host_ip
        return (
            f"{host_ip}:{self.host_port}/{self.protocol}" if host_ip else f"{self.host_port}/{self.protocol}"
        )
