"""The network configuration of `type: netloom`: its keys and their valid values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, ValidationError

from ..cni import DNS, InvalidConfig, InvalidEnvironment, UnsupportedField, wire
from ..cni.names import shortened, validate_ifname
from ..cni.skel import Request
from ..cni.wire import Complaint, complaint, thread_safe
from ..ipam import Pool, PoolConfig, parse_pools, requested_addresses
from ..kernel import InvalidObject
from ..kernel.values import IPV6_MTU, packed_network, require_mac
from ..workloads import Arguments
from .features.options import (
    BandwidthCapability,
    BandwidthConfig,
    Isolation,
    Limits,
    MasqueradeConfig,
    MasqueradeScope,
    PortMapping,
    as_named,
    limits_of,
    mappings_of,
    masquerade_of,
    settings_of,
)
from .modes import DEFAULT, mode_named, mode_names

# Every container has `lo`; `all` and `default` stand for all links in the kernel's sysctls.
_TAKEN = frozenset({"lo", "all", "default"})
DEFAULT_COOLDOWN = 130.0
LONGEST_COOLDOWN = 86400.0
_LONGEST_QUEUE = 1_000_000


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))


# As other plugins spell them.
_NAMES = {"txqlen": "txQLen"}


class RouteConfig(Struct, frozen=True, forbid_unknown_fields=True):
    dst: str


class _CniArgs(Struct, frozen=True, rename=_NAMES):
    ips: tuple[str, ...] = ()
    mac: str = ""
    mtu: int | None = None
    txqlen: int | None = None
    sysctl: dict[str, str] = {}


class _Args(Struct, frozen=True):
    cni: _CniArgs = _CniArgs()


class _RuntimeDNS(Struct, frozen=True):
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class _RuntimeConfig(Struct, frozen=True, rename="camel"):
    ips: tuple[str, ...] = ()
    mac: str = ""
    dns: _RuntimeDNS | None = None
    port_mappings: tuple[PortMapping, ...] = ()
    bandwidth: BandwidthCapability | None = None


class _Keys(Struct, frozen=True, rename=lambda field: _NAMES.get(field) or _camel(field)):
    pools: tuple[PoolConfig, ...] = ()
    mode: str = DEFAULT
    mtu: int | None = None
    cooldown: float = DEFAULT_COOLDOWN
    default_route: bool | None = None
    routes: tuple[RouteConfig, ...] = ()
    interface: str | None = None
    dns: DNS = DNS()
    args: _Args = _Args()
    runtime_config: _RuntimeConfig = _RuntimeConfig()
    ipam: Any = None
    port_mappings: Any = None
    mac: str = ""
    txqlen: int | None = None
    ip_masq: bool | MasqueradeConfig = False
    isolation: Isolation = "none"
    bandwidth: BandwidthConfig = BandwidthConfig()
    sysctl: dict[str, str] = {}


# Descriptions of valid values, by key.
_VALID = {
    "pools": 'a list, such as [{"cidr": "10.20.0.0/16"}]',
    "cidr": 'a range, such as "10.20.0.0/16"',
    "gateway": "an address",
    "exclude": 'a list of addresses, CIDRs and ranges, such as ["10.20.0.0/24", "10.20.1.1-10.20.1.9"]',
    "strategy": '"sequential", "random" or "embedded"',
    "mtu": "0, or a whole number from 576 to 65535",
    "cooldown": f"a number of seconds from 0 to {LONGEST_COOLDOWN:.0f}",
    "defaultRoute": "true or false",
    "routes": 'a list, such as [{"dst": "192.168.0.0/16"}]',
    "dst": 'a range, such as "192.168.0.0/16"',
    "interface": "a name",
    "dns": 'an object, such as {"nameservers": ["10.20.0.53"]}',
    **dict.fromkeys(("nameservers", "search", "options", "servers", "searches"), "a list of strings"),
    "domain": "a string",
    "args": 'an object, such as {"cni": {"ips": ["10.20.7.7"]}}',
    "ips": 'a list of addresses, such as ["10.20.7.7"]',
    "mac": 'a MAC address, such as "02:00:00:00:00:07"',
    "runtimeConfig": "an object with `ips`, `mac`, `dns`, `portMappings`, `bandwidth`",
    "ipMasq": 'true, false, or an object such as {"ipv6": false, "except": ["192.168.0.0/16"]}',
    **dict.fromkeys(("ipv4", "ipv6"), "true or false"),
    "except": 'a list of ranges, such as ["192.168.0.0/16"]',
    "isolation": '"none", "networks" or "containers"',
    "bandwidth": 'an object, such as {"ingressRate": 100000000, "egressRate": 20000000}',
    **dict.fromkeys(("ingressRate", "egressRate"), "a whole number of bits a second"),
    **dict.fromkeys(("ingressBurst", "egressBurst"), "a whole number of bits"),
    "sysctl": 'an object of strings, such as {"net.core.somaxconn": "500"}',
    "txQLen": "a whole number from 0 to 1000000",
    "portMappings": 'a list, such as [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]',
    **dict.fromkeys(("hostPort", "containerPort"), "a whole number from 1 to 65535"),
    "protocol": '"tcp", "udp" or "sctp"',
    "hostIP": "an address of the host, or empty for all of them",
}


def valid_value(key: str) -> str:
    """Describes the valid values of a key; empty for an unknown key."""
    if key == "mode":
        return " or ".join(f'"{it}"' for it in mode_names())
    return _VALID.get(key, "")


# Objects that accept no unknown keys, by the key that contains them.
_MAY_HAVE: dict[str, type[Struct]] = {
    "pools": PoolConfig,
    "routes": RouteConfig,
    "ipMasq": MasqueradeConfig,
    "bandwidth": BandwidthConfig,
}
# Keys that every plugin may have.
_COMMON = ("cniVersion", "name", "type", "capabilities", "prevResult")
_ALIKE = 0.8


class Network(Struct, frozen=True, kw_only=True):
    """The validated configuration of one ADD. `text` is its canonical form, for `hash`.

    `mode` is the name of a known mode, and `scope` the address scope that this mode gives the network.
    """

    mode: str
    scope: str
    pools: tuple[Pool, ...]
    requested: tuple[bytes, ...]
    cooldown: float
    mtu: int | None
    mac: str | None
    default_route: bool | None
    destinations: tuple[str, ...]
    interface: str
    dns: DNS
    arguments: Arguments
    text: bytes
    txqlen: int | None
    masquerade: MasqueradeScope | None
    isolation: Isolation
    mappings: tuple[PortMapping, ...]
    limits: Limits
    settings: tuple[tuple[str, str], ...]

    @property
    def hash(self) -> str:
        """Identifies everything that was requested, to tell a repeated ADD from a different one."""
        import hashlib  # only an ADD needs it

        return hashlib.sha256(self.text).hexdigest()[:32]


def network_of(request: Request) -> Network:
    """Validates a request. Raises a `CNIError` that names the key and its value."""
    parsed = _parsed(request)
    keys, pools = parsed.keys, parsed.pools
    arguments = Arguments.parse(request.args)
    interface = keys.interface or request.ifname
    if interface in _TAKEN or "%" in interface:
        raise InvalidEnvironment(
            f"interface name is {interface}",
            "the kernel reserves this name",
            discreet="the kernel reserves this interface name",
        )
    return Network(
        mode=keys.mode,
        scope=parsed.scope,
        pools=pools,
        requested=requested_addresses(
            arguments.ip or None, keys.args.cni.ips, keys.runtime_config.ips, pools
        ),
        cooldown=keys.cooldown,
        mtu=parsed.mtu,
        mac=_mac(keys, arguments),
        default_route=keys.default_route,
        destinations=parsed.destinations,
        interface=interface,
        dns=parsed.dns,
        arguments=arguments,
        txqlen=parsed.txqlen,
        masquerade=parsed.masquerade,
        isolation=keys.isolation,
        mappings=parsed.mappings,
        limits=parsed.limits,
        settings=parsed.settings,
        text=b"[%b,%b]" % (parsed.wanted, msgspec.json.encode(request.args)),
    )


class _Parsed(Struct, frozen=True):
    """A parsed configuration, independent of the container. `wanted` is its text for the hash."""

    keys: _Keys
    scope: str
    pools: tuple[Pool, ...]
    destinations: tuple[str, ...]
    dns: DNS
    wanted: bytes
    mtu: int | None
    txqlen: int | None
    masquerade: MasqueradeScope | None
    mappings: tuple[PortMapping, ...]
    limits: Limits
    settings: tuple[tuple[str, str], ...]


# Every container of a network comes with the same configuration. Small ones are cached, by their text.
_known: dict[bytes, _Parsed] = {}
_KNOWN_MAX = 64
_SMALL = 1 << 14


def _parsed(request: Request) -> _Parsed:
    parsed = _known.get(request.source)
    if parsed is None:
        parsed = _parse(request.config)
        if len(request.source) <= _SMALL:
            if len(_known) >= _KNOWN_MAX:
                _known.clear()
            _known[request.source] = parsed
    return parsed


def _parse(config: dict[str, Any]) -> _Parsed:
    keys = _keys(config)
    if keys.ipam:
        raise UnsupportedField(
            "unsupported field ipam", "netloom assigns addresses itself: list their ranges in `pools`"
        )
    if keys.port_mappings:
        raise UnsupportedField(
            "unsupported field portMappings",
            "the runtime requests host ports: declare the capability `portMappings`",
        )
    if keys.mode not in mode_names():
        what, valid = "invalid network config: mode is", f", and must be {valid_value('mode')}"
        shown = shortened(_as_written(keys.mode))
        raise InvalidConfig(f"{what} {shown}{valid}", discreet=f"{what} {wire.json_type(keys.mode)}{valid}")
    mode = mode_named(keys.mode)
    mode.validate(config)
    of_args = keys.args.cni
    mtu = keys.mtu if of_args.mtu is None else of_args.mtu
    if mtu is not None and not (mtu == 0 or 576 <= mtu <= 65535):
        raise InvalidConfig(f"mtu {mtu} is not from 576 to 65535")
    txqlen = keys.txqlen if of_args.txqlen is None else of_args.txqlen
    if txqlen is not None and not 0 <= txqlen <= _LONGEST_QUEUE:
        raise InvalidConfig(f"txQLen {txqlen} is not from 0 to {_LONGEST_QUEUE}")
    if not 0 <= keys.cooldown <= LONGEST_COOLDOWN:
        raise InvalidConfig(f"cooldown {keys.cooldown} is not from 0 to {LONGEST_COOLDOWN:.0f} seconds")
    pools = _pools(keys, config)
    if 0 < (mtu or 0) < IPV6_MTU and any(pool.family == 6 for pool in pools):
        raise InvalidConfig(f"mtu {mtu} is too small for IPv6, which needs {IPV6_MTU}")
    if keys.interface is not None:
        validate_ifname(keys.interface)
    destinations = tuple(_destination(route.dst) for route in keys.routes)
    return _Parsed(
        keys=keys,
        scope=mode.scope(str(config.get("name", ""))),
        pools=pools,
        destinations=destinations,
        dns=_dns(keys),
        wanted=_wanted(config),
        mtu=mtu or None,
        txqlen=txqlen,
        masquerade=masquerade_of(keys.ip_masq),
        mappings=mappings_of(keys.runtime_config.port_mappings),
        limits=limits_of(keys.bandwidth, keys.runtime_config.bandwidth),
        settings=settings_of({**keys.sysctl, **of_args.sysctl}),
    )


def _pools(keys: _Keys, config: Mapping[str, Any]) -> tuple[Pool, ...]:
    """If the pools are missing, the error names a misspelled key: this is a common cause."""
    try:
        return parse_pools(keys.pools)
    except InvalidConfig as error:
        meant = [(key, name) for key, name in misspelled(config) if name == "pools"]
        if keys.pools or not meant:
            raise
        raise Misspelled(error.msg, *meant[0]) from None


def _keys(config: dict[str, Any]) -> _Keys:
    given = {key: value for key, value in config.items() if value is not None}
    if "runtimeConfig" in given:
        given["runtimeConfig"] = as_named(given["runtimeConfig"])
    try:
        return msgspec.convert(given, thread_safe(_Keys))
    except ValidationError as cause:
        said, discreet = _in_our_words(complaint(cause), given)
        what = "invalid network config"
        raise InvalidConfig(f"{what}: {said}", discreet=f"{what}: {discreet}") from None


def _in_our_words(wrong: Complaint, config: dict[str, Any]) -> tuple[str, str]:
    """Describes the given value and the valid ones; and the same without the value."""
    path = wrong.place
    value: Any = config
    steps = re.findall(r"[^.\[\]]+", path)
    for step in steps:
        value = value[int(step) if isinstance(value, list) else step]
    if wrong.missing:
        text = f"{path} has no `{wrong.missing}`, and needs one: {valid_value(wrong.missing)}"
        return text, text
    if wrong.unknown:
        known = _MAY_HAVE[re.sub(r"\[.*", "", path)].__struct_encode_fields__
        text = f"{path} has an unknown key `{shortened(wrong.unknown)}`; it may have {', '.join(known)}"
        return text, text
    key = next(step for step in reversed(steps) if valid_value(step))
    valid = f", and must be {valid_value(key)}" if key == steps[-1] else f"; {key} is {valid_value(key)}"
    shown = shortened(_as_written(value))
    return f"{path} is {shown}{valid}", f"{path} is {wire.json_type(value)}{valid}"


def _as_written(value: object) -> str:
    import json  # only errors need it

    return json.dumps(value, ensure_ascii=False)


class Misspelled(InvalidConfig):
    """A required key is missing, and a misspelled one is present."""

    def __init__(self, msg: str, key: str, meant: str) -> None:
        super().__init__(msg, hint(key, meant))
        self.key = key


def hint(key: str, meant: str) -> str:
    return f"unknown key `{shortened(key)}`; did you mean `{meant}`?"


@cache
def _known_keys() -> frozenset[str]:
    return frozenset({field.encode_name for field in msgspec.structs.fields(_Keys)}.union(_COMMON))


def misspelled(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns unknown keys that resemble known ones, each with the known key."""
    unknown = config.keys() - (known := _known_keys())
    if not unknown:
        return []
    from difflib import get_close_matches  # only unknown keys need it

    by_lower = {name.lower(): name for name in known}
    found = []
    for key in unknown:
        alike = get_close_matches(key.lower(), by_lower, n=1, cutoff=_ALIKE)
        if alike:
            found.append((key, by_lower[alike[0]]))
    return sorted(found)


def _mac(keys: _Keys, arguments: Arguments) -> str | None:
    mac = (
        (keys.runtime_config.mac or keys.args.cni.mac or arguments.mac or keys.mac).lower().replace("-", ":")
    )
    try:
        require_mac(mac or None)
    except InvalidObject as cause:
        raise InvalidConfig(str(cause), discreet=f"mac must be {_VALID['mac']}") from None
    if mac == "00:00:00:00:00:00":
        raise InvalidConfig(f"a link cannot have the MAC address {mac}")
    return mac or None


def _destination(text: str) -> str:
    try:
        packed_network(text)
    except InvalidObject as cause:
        raise InvalidConfig(f"routes: {cause}", discreet=f"routes: dst must be {_VALID['dst']}") from None
    return text


def _dns(keys: _Keys) -> DNS:
    """The runtime's values take precedence over the network's."""
    said = keys.runtime_config.dns
    if said is None:
        return keys.dns
    return DNS(
        nameservers=said.servers or keys.dns.nameservers,
        domain=keys.dns.domain,
        search=said.searches or keys.dns.search,
        options=said.options or keys.dns.options,
    )


def _wanted(config: dict[str, Any]) -> bytes:
    """Returns the request of the operator and the runtime, without the results of previous plugins."""
    wanted = {
        key: value for key, value in config.items() if key != "prevResult" and not key.startswith("cni.dev/")
    }
    return msgspec.json.encode(wanted, order="deterministic")
