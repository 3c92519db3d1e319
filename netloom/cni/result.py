"""The results of ADD: the result types of every version, and the conversions between them.

There are three shapes. 0.1.0 and 0.2.0 have one address of each family (`LegacyResult`). 0.3.0 to 0.4.0 list
interfaces, addresses and routes, each address with its family. 1.0.0 and 1.1.0 dropped the family and added
interface details. The last two share `Result`; its `cni_version` says how it is written. `as_version`
converts between all of them.

Values are checked when they are created, so that a bad address fails in the plugin that made it and not in
the next one.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import force_setattr, replace

from . import versions, wire
from .addresses import canonical_cidr, canonical_ip, is_ipv4
from .errors import DecodingFailure, IncompatibleVersion
from .wire import complaint, thread_safe

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

_LEGACY = ("0.1.0", "0.2.0")
_LABELLED = ("0.3.0", "0.3.1", "0.4.0")


class Interface(Struct, frozen=True, rename={"socket_path": "socketPath", "pci_id": "pciID"}):
    name: str = ""
    mac: str = ""
    mtu: Int64 = 0
    sandbox: str = ""
    socket_path: str = ""
    pci_id: str = ""


class IP(Struct, frozen=True):
    """An address with its prefix length. `interface` is an index into the result's interfaces."""

    address: str
    gateway: str = ""
    interface: Int64 | None = None
    version: str = ""  # "4" or "6", in results of 0.3.0 to 0.4.0 only

    def __post_init__(self) -> None:
        force_setattr(self, "address", canonical_cidr(self.address))
        if self.gateway:
            force_setattr(self, "gateway", canonical_ip(self.gateway))


class Route(Struct, frozen=True):
    dst: str
    gw: str = ""
    mtu: Int64 = 0
    advmss: Int64 = 0
    priority: Int64 = 0
    table: Int64 | None = None
    scope: Int64 | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "dst", canonical_cidr(self.dst))
        if self.gw:
            force_setattr(self, "gw", canonical_ip(self.gw))


class DNS(Struct, frozen=True):
    nameservers: tuple[str, ...] = ()
    domain: str = ""
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class LegacyIP(Struct, frozen=True):
    ip: str
    gateway: str = ""
    routes: tuple[Route, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "ip", canonical_cidr(self.ip))
        if self.gateway:
            force_setattr(self, "gateway", canonical_ip(self.gateway))


class LegacyResult(Struct, frozen=True, rename="camel"):
    """A result of 0.1.0 or 0.2.0."""

    ip4: LegacyIP | None = None
    ip6: LegacyIP | None = None
    dns: DNS = DNS()
    cni_version: str = "0.2.0"

    def as_version(self, version: str) -> AnyResult:
        version = version or versions.UNDECLARED
        if version in _LEGACY:
            return replace(self, cni_version=version)
        _require_converter(self.cni_version, version)
        ips = []
        routes: list[Route] = []
        for legacy, label in ((self.ip4, "4"), (self.ip6, "6")):
            if legacy is not None:
                ips.append(IP(legacy.ip, legacy.gateway, version=label if version in _LABELLED else ""))
                routes += legacy.routes
        return Result(ips=tuple(ips), routes=tuple(routes), dns=self.dns, cni_version=version)

    def encode(self) -> bytes:
        """Compact JSON, byte for byte as Go's libcni writes it."""
        return wire.encode_in_order(
            _without_zeros(
                {
                    "cniVersion": self.cni_version,
                    "ip4": self.ip4 and _legacy_ip_to_wire(self.ip4),
                    "ip6": self.ip6 and _legacy_ip_to_wire(self.ip6),
                }
            )
            | {"dns": _dns_to_wire(self.dns)}
        )


class Result(Struct, frozen=True, rename="camel"):
    """A result of 0.3.0 or later."""

    interfaces: tuple[Interface, ...] = ()
    ips: tuple[IP, ...] = ()
    routes: tuple[Route, ...] = ()
    dns: DNS = DNS()
    cni_version: str = versions.CURRENT

    def as_version(self, version: str) -> AnyResult:
        version = version or versions.UNDECLARED
        if version == self.cni_version:
            return self
        _require_converter(self.cni_version, version)
        if version in _LEGACY:
            return self._as_legacy(version)
        return _in_dialect(replace(self, cni_version=version))

    def _as_legacy(self, version: str) -> LegacyResult:
        first: dict[str, LegacyIP] = {}
        for ip in self.ips:
            label = _label(ip)
            if label in ("4", "6") and label not in first:
                routes = tuple(
                    Route(it.dst, it.gw) for it in self.routes if is_ipv4(it.dst) == (label == "4")
                )
                first[label] = LegacyIP(ip.address, ip.gateway, routes)
        if not first:
            raise IncompatibleVersion("cannot convert: no valid IP addresses")
        return LegacyResult(first.get("4"), first.get("6"), self.dns, version)

    def encode(self) -> bytes:
        """Compact JSON, byte for byte as Go's libcni writes it."""
        fields = _without_zeros(
            {
                "cniVersion": self.cni_version,
                "interfaces": [_interface_to_wire(it) for it in self.interfaces],
                "ips": [_ip_to_wire(it) for it in self.ips],
                "routes": [_route_to_wire(it) for it in self.routes],
                "dns": _dns_to_wire(self.dns),
            }
        )
        if self.cni_version in _LABELLED:
            return wire.encode_in_order(fields | {"dns": _dns_to_wire(self.dns)})
        return wire.encode(fields)


AnyResult: TypeAlias = Result | LegacyResult


def empty_result(version: str) -> AnyResult:
    """Returns an empty result in the shape of a version."""
    version = version or versions.UNDECLARED
    _require_converter(version, version)
    return LegacyResult(cni_version=version) if version in _LEGACY else Result(cni_version=version)


def decode_result(data: bytes, what: str = "failed to decode result") -> AnyResult:
    """Decodes a result from JSON, in the version that it declares (none: 0.1.0)."""
    return result_from_wire(wire.decode_object(data, what), what)


def result_from_wire(raw: dict[str, Any], what: str = "failed to decode result") -> AnyResult:
    """Builds a result from decoded JSON. As in Go, `null` is the same as an absent field."""
    version = raw.get("cniVersion")
    if version is None or version == "":
        version = versions.UNDECLARED
    if not isinstance(version, str):
        raise DecodingFailure(f"{what}: cniVersion is {wire.json_type(version)}, not a string")
    if version not in versions.ALL:
        text = "unsupported CNI result version"
        raise IncompatibleVersion(f'{text} "{version}"', discreet=text)
    try:
        fields = _without_nulls(raw | {"cniVersion": version})
        if version in _LEGACY:
            return convert(fields, thread_safe(LegacyResult))
        result = convert(_own_fields(fields, version), thread_safe(Result))
    except RecursionError:
        raise DecodingFailure(f"{what}: nested too deeply") from None
    except ValidationError as cause:
        place = complaint(cause).place or "the top"
        raise DecodingFailure(
            f"{what}: {cause}", discreet=f"{what}: the value at {place} is invalid"
        ) from None
    # Older plugins omit the address family.
    return _in_dialect(result) if version in _LABELLED else result


def _own_fields(fields: dict[str, Any], version: str) -> dict[str, Any]:
    """Drops fields that only other versions have, whatever their value."""
    key, foreign = _FOREIGN[version in _LABELLED]
    entries = fields.get(key)
    if not isinstance(entries, list):
        return fields
    own = [
        {name: value for name, value in entry.items() if name not in foreign}
        if isinstance(entry, dict)
        else entry
        for entry in entries
    ]
    return fields | {key: own}


# Whether a version labels addresses with their family.
_FOREIGN = {True: ("interfaces", ("mtu", "socketPath", "pciID")), False: ("ips", ("version",))}


def _in_dialect(result: Result) -> Result:
    """Returns only the fields of the result's version: the address family, or interface details."""
    if result.cni_version in _LABELLED:
        bare = tuple(Interface(it.name, mac=it.mac, sandbox=it.sandbox) for it in result.interfaces)
        return replace(
            result, interfaces=bare, ips=tuple(replace(ip, version=_label(ip)) for ip in result.ips)
        )
    if not any(ip.version for ip in result.ips):
        return result
    return replace(result, ips=tuple(replace(ip, version="") for ip in result.ips))


def _require_converter(origin: str, version: str) -> None:
    if version not in versions.ALL:
        raise IncompatibleVersion(f"no converter for CNI result version {origin} to {version}")


def _label(ip: IP) -> str:
    return ip.version or ("4" if is_ipv4(ip.address) else "6")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_zeros(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Omits None: for numbers whose zero means something, as in `interface: 0`, the first interface."""
    return {key: value for key, value in fields.items() if value is not None}


def _interface_to_wire(it: Interface) -> dict[str, Any]:
    details = {
        "mac": it.mac,
        "mtu": it.mtu,
        "sandbox": it.sandbox,
        "socketPath": it.socket_path,
        "pciID": it.pci_id,
    }
    return {"name": it.name} | _without_zeros(details)


def _ip_to_wire(it: IP) -> dict[str, Any]:
    return (
        _without_zeros({"version": it.version})
        | _without_none({"interface": it.interface})
        | _without_zeros({"address": it.address, "gateway": it.gateway})
    )


def _route_to_wire(it: Route) -> dict[str, Any]:
    numbers = {"mtu": it.mtu, "advmss": it.advmss, "priority": it.priority}
    return _without_zeros({"dst": it.dst, "gw": it.gw, **numbers}) | _without_none(
        {"table": it.table, "scope": it.scope}
    )


def _dns_to_wire(it: DNS) -> dict[str, Any]:
    return _without_zeros(
        {
            "nameservers": it.nameservers,
            "domain": it.domain,
            "search": it.search,
            "options": it.options,
        }
    )


def _legacy_ip_to_wire(it: LegacyIP) -> dict[str, Any]:
    return _without_zeros(
        {"ip": it.ip, "gateway": it.gateway, "routes": [_route_to_wire(route) for route in it.routes]}
    )
