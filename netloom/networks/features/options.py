"""Validates NAT, host ports, limits and sysctls from the network's configuration and the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import fields, replace

from ... import kernel
from ...cni import InvalidConfig
from ...cni.names import shortened
from ...kernel import InvalidObject
from ...kernel.values import packed_ip, packed_network, shown_ip
from .sysctls import IFNAME, is_allowed, path_of

if TYPE_CHECKING:
    from ..modes.base import Assigned


Isolation: TypeAlias = Literal["none", "networks", "containers"]
Protocol: TypeAlias = Literal["tcp", "udp", "sctp"]

# Runtimes send such a burst for "unlimited". Taken literally, it would be seconds without any limit.
BOUNDLESS = (1 << 31) - 1
SLOWEST, FASTEST = 8_000, 400_000_000_000


class Limit(Struct, frozen=True):
    """A rate in bits a second and a burst in bits; a burst of 0 is derived from the rate."""

    rate: int
    burst: int = 0


class Limits(Struct, frozen=True):
    """The limits of an attachment. `ingress` is what the container receives."""

    ingress: Limit | None = None
    egress: Limit | None = None


class MasqueradeScope(Struct, frozen=True, kw_only=True):
    """The families to masquerade, and destinations besides the pools that are exempt."""

    ipv4: bool = True
    ipv6: bool = True
    exceptions: tuple[str, ...] = ()

    def covers(self, address: str) -> bool:
        return self.ipv6 if ":" in address else self.ipv4


class MappedPort(Struct, frozen=True, kw_only=True):
    """A host port, and the container's address and port to which it leads, in one address family.

    Without `host_ip`, it is on all addresses of the host.
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


# Protocol, port, host address, and whether it is IPv6.
Port: TypeAlias = tuple[str, int, str, bool]

# First bytes of multicast addresses, by length; and the prefix of IPv4-mapped IPv6 addresses.
_GROUPS = {4: range(224, 256), 16: range(255, 256)}
_MAPPED = bytes(10) + b"\xff\xff"

_PROTOCOLS = ("tcp", "udp", "sctp")
_ANY = ("0.0.0.0", "::")
# Each exception of a masquerade is a rule.
_MOST_EXCEPTIONS = 256
# Host ports of one container. Each check compares them all, and an ADD with so many takes 0.4 s.
_MOST_PORTS = 5000
# In seconds of the rate. The kernel could represent 274.
_LONGEST_BURST = 60


class MasqueradeConfig(Struct, frozen=True, forbid_unknown_fields=True, rename={"exceptions": "except"}):
    ipv4: bool = True
    ipv6: bool = True
    exceptions: tuple[str, ...] = ()


class BandwidthCapability(Struct, frozen=True, rename="camel"):
    """Bits, as in the capability. 0: no limit."""

    ingress_rate: int = 0
    ingress_burst: int = 0
    egress_rate: int = 0
    egress_burst: int = 0


class BandwidthConfig(BandwidthCapability, frozen=True, forbid_unknown_fields=True):
    """The key `bandwidth` of a network."""


class PortMapping(
    Struct,
    frozen=True,
    rename={"host_port": "hostPort", "container_port": "containerPort", "host_ip": "hostIP"},
):
    """As runtimes send it. After validation, `protocol` is in lower case, and `host_ip` as nft shows it."""

    host_port: int
    container_port: int
    protocol: str = "tcp"
    host_ip: str = ""

    def __str__(self) -> str:
        where = f" of {self.host_ip}" if self.host_ip else ""
        return f"host port {self.host_port}/{self.protocol}{where}"


# Nesting: a capability, its list, an object in it, a list there.
_DEEPEST = 4
_NAMES = {
    name.lower(): name
    for name in (
        *(field.encode_name for kind in (PortMapping, BandwidthCapability) for field in fields(kind)),
        *("servers", "searches", "options"),
    )
}


def as_named(value: Any, depth: int = _DEEPEST) -> Any:
    """Returns a runtime's value with the names of the capability, and without null values.

    Runtimes written in Go may spell keys like their struct fields (`HostPort`), since Go accepts both, and
    send null for empty values.
    """
    if not depth or not isinstance(value, list | dict):
        return value
    if isinstance(value, list):
        return [as_named(it, depth - 1) for it in value if it is not None]
    given = {key: as_named(it, depth - 1) for key, it in value.items() if it is not None}
    renamed = {_NAMES.get(key.lower(), key): it for key, it in given.items()}
    return renamed | {key: it for key, it in given.items() if key in renamed}


def masquerade_of(said: bool | MasqueradeConfig) -> MasqueradeScope | None:
    if isinstance(said, bool):
        return MasqueradeScope() if said else None
    if len(said.exceptions) > _MOST_EXCEPTIONS:
        raise InvalidConfig(
            f"ipMasq.except has {len(said.exceptions)} ranges; the maximum is {_MOST_EXCEPTIONS}: merge some"
        )
    for cidr in said.exceptions:
        try:
            packed_network(cidr)
        except InvalidObject as cause:
            raise InvalidConfig(
                f"ipMasq.except: {cause}", discreet="ipMasq.except has an invalid range"
            ) from None
    if not said.ipv4 and not said.ipv6:
        return None
    return MasqueradeScope(
        ipv4=said.ipv4, ipv6=said.ipv6, exceptions=tuple(dict.fromkeys(map(_whole, said.exceptions)))
    )


def _whole(cidr: str) -> str:
    """Normalizes a range, so that equal ranges have equal text."""
    packed, prefix = packed_network(cidr)
    return f"{shown_ip(packed)}/{prefix}"


def mappings_of(said: Sequence[PortMapping]) -> tuple[PortMapping, ...]:
    if len(said) > _MOST_PORTS:
        raise InvalidConfig(f"portMappings has {len(said)} ports; the maximum is {_MOST_PORTS}")
    found: dict[PortMapping, None] = {}
    for given in said:
        it = replace(given, protocol=given.protocol.lower(), host_ip=_host_ip(given.host_ip))
        if it.protocol not in _PROTOCOLS:
            known = f"is not one of {', '.join(_PROTOCOLS)}"
            raise InvalidConfig(
                f"portMappings: protocol {shortened(given.protocol)!r} {known}",
                discreet=f"portMappings: protocol {known}",
            )
        for name, port in (("hostPort", it.host_port), ("containerPort", it.container_port)):
            if not 1 <= port <= 65535:
                raise InvalidConfig(f"portMappings: {name} {port} is not from 1 to 65535")
        found[it] = None
    return tuple(found)


def _host_ip(text: str) -> str:
    if not text:
        return ""
    try:
        packed = packed_ip(text)
    except InvalidObject as cause:
        raise InvalidConfig(
            f"portMappings: hostIP {cause}", discreet="portMappings: hostIP is not an IP address"
        ) from None
    if packed[0] in _GROUPS[len(packed)] or packed.startswith(_MAPPED):
        raise InvalidConfig(f"portMappings: hostIP {text} is not an address that a host can have")
    return shown_ip(packed)


def host_ports(mappings: Sequence[PortMapping], addresses: Sequence[Assigned]) -> tuple[MappedPort, ...]:
    """Returns each mapping for its address families: that of its host address, or all of the container's."""
    first = {address.is_ipv4: address.ip for address in reversed(addresses)}
    ports: dict[Port, MappedPort] = {}
    for it in mappings:
        wanted = (True, False) if not it.host_ip else (":" not in it.host_ip,)
        there = [first[ipv4] for ipv4 in wanted if ipv4 in first]
        if not there:
            family = "IPv4" if wanted[0] else "IPv6"
            raise InvalidConfig(
                f"{it} leads nowhere: the container has no {family} address",
                f"give the network an {family} pool, or map the port of an address of the other family",
            )
        for ip in there:
            port = MappedPort(
                protocol=it.protocol,  # type: ignore[arg-type]
                host_port=it.host_port,
                ip=ip,
                port=it.container_port,
                host_ip="" if it.host_ip in _ANY else it.host_ip,
            )
            other = ports.setdefault((port.protocol, port.host_port, port.host_ip, ":" in ip), port)
            if other != port:
                raise InvalidConfig(f"portMappings: {it} leads to {other.port} and to {port.port} at once")
    return tuple(ports.values())


def limits_of(said: BandwidthCapability, runtime: BandwidthCapability | None) -> Limits:
    """In each direction, the runtime's limit takes precedence over the network's."""
    both = [it for it in (runtime, said) if it is not None]
    ingress = [_limit("ingress", it.ingress_rate, it.ingress_burst) for it in both]
    egress = [_limit("egress", it.egress_rate, it.egress_burst) for it in both]
    return Limits(next(filter(None, ingress), None), next(filter(None, egress), None))


def _limit(name: str, rate: int, burst: int) -> Limit | None:
    if burst and not rate:
        raise InvalidConfig(f"bandwidth: {name}Burst is {burst}, but {name}Rate is not given")
    if not rate:
        return None
    if not SLOWEST <= rate <= FASTEST:
        raise InvalidConfig(f"bandwidth: {name}Rate {rate} is not from {SLOWEST} to {FASTEST} bits a second")
    if burst < 0:
        raise InvalidConfig(f"bandwidth: {name}Burst {burst} is negative")
    if burst >= BOUNDLESS:
        burst = 0
    if burst > rate * _LONGEST_BURST:
        raise InvalidConfig(
            f"bandwidth: {name}Burst {burst} lasts over {_LONGEST_BURST} s at {name}Rate {rate}",
            "omit it to use a burst that suits the rate",
        )
    return Limit(rate, burst)


def settings_of(said: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    settings: dict[str, str] = {}
    for name, value in said.items():
        path = path_of(name)
        if not is_allowed(path):
            raise InvalidConfig(
                f"sysctl {shortened(name)!r} is not one that a network may set",
                f"docs/reference/keys/sysctl.md lists those; write {IFNAME} for the interface's name",
                discreet="sysctl has a name that a network may not set",
            )
        try:
            kernel.Sysctl(path, value, on="attachment")
        except InvalidObject as cause:
            raise InvalidConfig(f"sysctl: {cause}", discreet=f"sysctl: {path} has an invalid value") from None
        settings[path] = value
    return tuple(settings.items())
