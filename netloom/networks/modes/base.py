"""What a mode is: how packets of an attachment move, as an interface.

The verbs, recovery, repair, the audit and the commands know this interface alone. A mode does no I/O: it is
given frozen facts, and gives back values. The registry beside it finds a mode by its name.

Every mode promises:

- The plan makes one link on the host, named `host_link`, which goes when the namespace of the container goes.
- The table's element for a source comes before that link, so that the link is guarded from its birth.
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
    """An address as text, and the gateway that its pool names; empty: the mode decides."""

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

    Without `default`, traffic from its own addresses still leaves by it, and so does what is for
    `destinations`; everything else takes another way. `pools` are the ranges of its network.
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
    """What is still known of an attachment whose plan is lost."""

    host_link: str
    ifname: str
    ips: tuple[bytes, ...] = ()
    rank: int = 0


class NodeObject(Struct, frozen=True):
    """A kernel object that the node itself has for a mode. `family` is 4 or 6: networks with it need it."""

    family: int
    object: AnyObject

    @property
    def key(self) -> str:
        return self.object.label


class Mode(ABC):
    name: ClassVar[str]
    # Addresses that containers send to first, on every node. They say nothing about a particular one.
    next_hops: ClassVar[tuple[str, ...]] = ()

    def load(self) -> None:
        """Imports what its plans need. An agent calls this before it serves; most commands need no plan."""
        del self

    @abstractmethod
    def scope(self, network: str) -> str:
        """In what no address of this network is given twice."""

    def validate(self, config: Mapping[str, Any]) -> None:
        """Judges the keys that only this mode has. Raises `InvalidConfig`."""
        del config

    @abstractmethod
    def plan(self, it: Attached) -> Plan:
        """Everything that the kernel has for the attachment, in the order in which it is made."""

    @abstractmethod
    def result(self, it: Attached, netns: str, before: Result | None = None) -> Result:
        """What ADD answers, without DNS: what the plugins before ours made, and then ours."""

    @abstractmethod
    def remnants(self, it: Lost) -> Plan:
        """What to remove of an attachment whose plan is lost, if it is there."""

    @abstractmethod
    def adopt_mac(self, plan: Plan, mac: str) -> Plan:
        """The plan of an interface to which another program gave this MAC."""

    @abstractmethod
    def addresses(self, plan: Plan) -> Sequence[bytes]:
        """The addresses that a plan leads to the attachment, from the host's own routing table."""

    def node_objects(self, host: Host) -> Sequence[NodeObject]:
        """What the node itself must have for this mode: applied at every start, and again when it is gone."""
        del host
        return ()
