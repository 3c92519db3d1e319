"""Network configurations, as a runtime loads them and a plugin receives them.

A configuration keeps its original bytes, for the cache and for keys that the library does not know, beside a
typed view of the keys that the runtime needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from . import versions, wire
from .errors import CNIError, InvalidConfig
from .names import shortened
from .wire import thread_safe


class _IPAM(Struct, frozen=True):
    type: str | None = None


class _DNS(Struct, frozen=True):
    nameservers: list[str | None] | None = None
    domain: str | None = None
    search: list[str | None] | None = None
    options: list[str | None] | None = None


class _ValidAttachment(Struct, frozen=True, rename={"container_id": "containerID"}):
    container_id: str | None = None
    ifname: str | None = None


class _PluginKeys(Struct, frozen=True, rename="camel"):
    """The keys of a plugin's configuration whose type the specification defines."""

    cni_version: str | None = None
    name: str | None = None
    type: str | None = None
    capabilities: dict[str, bool | None] | None = None
    ipam: _IPAM | None = None
    dns: _DNS | None = None
    prev_result: dict[str, Any] | None = None
    valid_attachments: list[_ValidAttachment | None] | None = field(
        name="cni.dev/valid-attachments", default=None
    )


class PluginConfig(Struct, frozen=True):
    """One plugin: an entry of a network's list, or a network by itself (the old `.conf` form)."""

    type: str
    name: str
    cni_version: str
    capabilities: frozenset[str]
    raw: Mapping[str, Any]
    source: bytes

    @property
    def description(self) -> str:
        named = f' name="{shortened(self.name)}"' if self.name else ""
        return f'type="{shortened(self.type)}"{named}'


class NetworkConfig(Struct, frozen=True):
    """A network: a name, a version, and its plugins in order."""

    name: str
    cni_version: str
    plugins: tuple[PluginConfig, ...]
    source: bytes
    disable_check: bool = False
    disable_gc: bool = False
    load_only_inlined_plugins: bool = False


def parse_plugin(source: bytes) -> PluginConfig:
    """Parses a plugin's configuration from JSON."""
    return _plugin(_document(source, "error parsing configuration"), source)


def parse_network(source: bytes) -> NetworkConfig:
    """Parses a network's list from JSON. The loader adds plugins from a directory of their own."""
    raw = _document(source, _LIST)
    if "name" not in raw:
        raise InvalidConfig(f"{_LIST}: no name")
    name = raw["name"]
    if not isinstance(name, str):
        raise InvalidConfig(f"{_LIST}: name is {wire.json_type(name)}, not a string")
    version = _negotiate(raw)
    flags = {key: _boolean(raw, key) for key in ("disableCheck", "disableGC", "loadOnlyInlinedPlugins")}
    return NetworkConfig(
        name=name,
        cni_version=version,
        plugins=_inlined_plugins(raw, flags["loadOnlyInlinedPlugins"]),
        source=source,
        disable_check=flags["disableCheck"],
        disable_gc=flags["disableGC"],
        load_only_inlined_plugins=flags["loadOnlyInlinedPlugins"],
    )


def network_from_plugin(plugin: PluginConfig) -> NetworkConfig:
    """Converts the old single-plugin form to a list of one."""
    document = {"name": plugin.name, "cniVersion": plugin.cni_version, "plugins": [plugin.raw]}
    return parse_network(wire.encode(document))


_LIST = "error parsing configuration list"


def _document(source: bytes, what: str) -> dict[str, Any]:
    raw = wire.decode_object(source, what, error=InvalidConfig)
    try:
        return {key: wire.with_go_numbers(value) for key, value in raw.items()}
    except RecursionError:
        raise InvalidConfig(f"{what}: nested too deeply") from None


def _plugin(raw: dict[str, Any], source: bytes) -> PluginConfig:
    try:
        keys = convert(raw, thread_safe(_PluginKeys))
    except ValidationError as cause:
        raise InvalidConfig(f"error parsing configuration: {cause}") from None
    if not keys.type:
        raise InvalidConfig("error parsing configuration: missing 'type'")
    return PluginConfig(
        type=keys.type,
        name=keys.name or "",
        cni_version=keys.cni_version or "",
        capabilities=frozenset(name for name, wanted in (keys.capabilities or {}).items() if wanted),
        raw=raw,
        source=source,
    )


def _inlined_plugins(raw: dict[str, Any], only_inlined: bool) -> tuple[PluginConfig, ...]:
    if "plugins" not in raw:
        if only_inlined:
            raise InvalidConfig(f"{_LIST}: `loadOnlyInlinedPlugins` is true, and no 'plugins' key")
        return ()
    entries = raw["plugins"]
    if not isinstance(entries, list):
        raise InvalidConfig(f"{_LIST}: 'plugins' is {wire.json_type(entries)}, not an array")
    if not entries:
        raise InvalidConfig(f"{_LIST}: no plugins in list")
    plugins = []
    for index, entry in enumerate(entries):
        try:
            if not isinstance(entry, dict):
                raise InvalidConfig(f"expected an object, got {wire.json_type(entry)}")
            plugins.append(_plugin(entry, wire.encode(entry)))
        except CNIError as error:
            raise error.at(context=f"failed to parse plugin config {index}") from None
    return tuple(plugins)


def _negotiate(raw: dict[str, Any]) -> str:
    """Returns the configuration's version: from `cniVersions`, the newest that this library implements."""
    version = raw.get("cniVersion", "")
    if not isinstance(version, str):
        raise InvalidConfig(f"{_LIST}: cniVersion is {wire.json_type(version)}, not a string")
    if "cniVersions" not in raw:
        return version
    offered = raw["cniVersions"]
    if not isinstance(offered, list):
        raise InvalidConfig(f"{_LIST}: cniVersions is {wire.json_type(offered)}, not an array")
    for index, entry in enumerate(offered):
        if not isinstance(entry, str):
            raise InvalidConfig(f"{_LIST}: cniVersions[{index}] is {wire.json_type(entry)}, not a string")
    try:
        newest = versions.newest([*offered, *([version] if version else [])])
    except CNIError as error:
        raise InvalidConfig(f"{_LIST}: {error}", discreet=f"{_LIST}: {error.discreet}") from None
    return version if newest is None else newest


def _boolean(raw: dict[str, Any], key: str) -> bool:
    value = raw.get(key, False)
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise InvalidConfig(f"{_LIST}: {key} is {wire.json_type(value)}, not a boolean")
    if value.lower() not in ("true", "false"):
        raise InvalidConfig(
            f'{_LIST}: invalid value "{value.lower()}" for {key}',
            discreet=f"{_LIST}: invalid value for {key}",
        )
    return value.lower() == "true"
