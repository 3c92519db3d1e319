"""The interface of a mode, which determines how the packets of an attachment move.

The verbs, recovery, repair, the audit and the commands know only this interface. A mode does no I/O: it takes
frozen facts and returns values. The registry of the package finds a mode by its name.

Every mode guarantees:

- The plan creates one link on the host, named `host_link`, which the kernel deletes with the container's
  namespace.
- The plan adds the table's source elements before that link, so that the link is filtered from the start.
- An address is unique in the mode's scope, and only there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from ...kernel.values import shown_ip
from ..features.options import Isolation, Limits, MappedPort, MasqueradeScope

if TYPE_CHECKING:
    from ...cni import Result
    from ...kernel import AnyObject, Plan
    from ..host import Host


class Assigned(Struct, frozen=True):
    """An address as text, and the gateway of its pool; empty: the mode chooses one."""

    ip: str
    gateway: str = ""

    @classmethod
    def of(cls, ip: bytes, gateway: bytes | None = None) -> Assigned:
        return cls(shown_ip(ip), "" if gateway is None else shown_ip(gateway))

    @property
    def is_ipv4(self) -> bool:
        return ":" not in self.ip

    @property
    def cidr(self) -> str:
        return f"{self.ip}/32" if self.is_ipv4 else f"{self.ip}/128"


class Attached(Struct, frozen=True, kw_only=True):
    """The facts of one interface. `rank` counts the container's interfaces; the first has 0.

    Without `default`, only traffic from the interface's own addresses and to `destinations` leaves by it.
    `pools` are the ranges of its network.
    """

    network: str
    host_link: str
    ifname: str
    mac: str
    mtu: int
    addresses: tuple[Assigned, ...]
    default: bool = True
    rank: int = 0
    destinations: tuple[str, ...] = ()
    ipv6: bool = True
    txqlen: int | None = None
    pools: tuple[str, ...] = ()
    masquerade: MasqueradeScope | None = None
    ports: tuple[MappedPort, ...] = ()
    limits: Limits = Limits()
    isolation: Isolation = "none"
    settings: tuple[tuple[str, str], ...] = ()


class Lost(Struct, frozen=True):
    """The known facts of an attachment whose plan is lost."""

    host_link: str
    ifname: str
    ips: tuple[bytes, ...] = ()
    rank: int = 0


class NodeObject(Struct, frozen=True):
    """A kernel object of the node itself that a mode needs for networks of `family` (4 or 6)."""

    family: int
    object: AnyObject

    @property
    def key(self) -> str:
        return self.object.label


class Mode(ABC):
    name: ClassVar[str]
    # The next hops of containers, the same on every node, so they identify no container.
    next_hops: ClassVar[tuple[str, ...]] = ()

    def load(self) -> None:
        """Imports what plans need. The agent calls this before it serves; most commands need no plan."""
        del self

    @abstractmethod
    def scope(self, network: str) -> str:
        """Returns the scope in which each address of this network is unique."""

    def validate(self, config: Mapping[str, Any]) -> None:
        """Validates the keys that only this mode has. Raises `InvalidConfig`."""
        del config

    @abstractmethod
    def plan(self, it: Attached) -> Plan:
        """Returns all kernel objects of the attachment, in the order of creation."""

    @abstractmethod
    def result(self, it: Attached, netns: str, before: Result | None = None) -> Result:
        """Returns the result of ADD without DNS: that of previous plugins, then ours."""

    @abstractmethod
    def remnants(self, it: Lost) -> Plan:
        """Returns what to remove, if it exists, for an attachment whose plan is lost."""

    @abstractmethod
    def adopt_mac(self, plan: Plan, mac: str) -> Plan:
        """Returns the plan of an interface whose MAC another program has changed to `mac`."""

    @abstractmethod
    def addresses(self, plan: Plan) -> Sequence[bytes]:
        """Returns the addresses that the plan routes to the attachment in the host's own routing table."""

    def node_objects(self, host: Host) -> Sequence[NodeObject]:
        """The node's objects for this mode. The agent applies them at start, and if one is missing."""
        del host
        return ()
