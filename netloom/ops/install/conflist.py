"""The network's file that `netloom up` writes, and whether an existing one can be kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...api.paths import Place
from ...cni import CNIError, parse_network
from ...cni.load import LISTS
from ...ipam import PoolConfig, parse_pools
from ..errors import OperationFailed, UsageError
from ..node.install import Receipt, digest, read
from ..node.networks import FILE, Copy, check_network, is_sound, node_networks, plugin_of


class NetworkOptions(Struct, frozen=True, kw_only=True):
    """Options of a network. None was not given: the value stays as it is, or becomes the default."""

    network: str | None = None
    pools: tuple[str, ...] | None = None
    mtu: int | None = None
    masquerade: bool | None = None
    cni_version: str | None = None


class NodeOptions(Struct, frozen=True, kw_only=True):
    """`adopt`: take over a node of a stopped agent with another state directory. `timeout` is in seconds."""

    place: Place
    network: NetworkOptions = NetworkOptions()
    keep_network: bool | None = None
    force: bool = False
    adopt: bool = False
    no_agent: bool = False
    systemd: bool = False
    timeout: float = 15.0


class AgentAccess(NamedTuple):
    """Functions that need the agent's own code, which only the command may import.

    `require_readable` raises `JournalError` if this version cannot read the journal at a path.
    `replace_agent` ends the agent that runs once its second argument has put another socket in its place; it
    raises `OperationFailed`.
    `tell` is called while the command waits for an agent, with the seconds since the wait began.
    """

    require_readable: Callable[[str], None]
    replace_agent: Callable[[Place, Callable[[], None]], None]
    tell: Callable[[float], None]


# What podman 4 and containerd 1.6 read; 1.1.0 brings GC and STATUS.
DEFAULT_VERSION = "1.0.0"
DEFAULT_NAME = "netloom"
DEFAULT_POOLS = ("10.78.0.0/16", "fd78::/64")

# podman replaces the capabilities of a plugin that does not declare `ips`.
CAPABILITIES = ("ips", "mac", "dns", "portMappings", "bandwidth")

# All keys that we write.
_TOP = {"cniVersion", "name", "plugins"}
_PLUGIN = {"type", "pools", "capabilities", "mtu", "ipMasq"}
_POOL = {"cidr"}

_UPLINK = "that of the host's default route"
_TAKES = {
    "network": "--network takes a name of letters, digits, `_`, `.` and `-`",
    "pools": "--pool takes a CIDR range such as 10.20.0.0/16 or fd20::/64; ranges must not overlap",
    "mtu": "--mtu takes 0, or 576 to 65535, and with an IPv6 pool at least 1280",
}


_NOTHING = NetworkOptions()


class _NotOurs(CNIError):
    """A valid network without netloom's plugin."""


class Decision(Struct, frozen=True):
    """The content that the file is to have, and the network's values. A foreign file keeps its content.

    `dropped` are pools in the file now, of a family that no new pool has; `lost` are keys and plugins that a
    user added, and that are removed. `new` are pools that the file does not have yet. `is_restored`: the file
    was missing or broken, and the node's copy of it is written again. `before` is the network's old name.
    """

    path: str
    content: bytes
    values: NetworkOptions
    is_ours: bool = True
    dropped: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    is_restored: bool = False
    before: str = ""


def decide(
    directory: str,
    given: NetworkOptions,
    known: Receipt,
    *,
    force: bool,
    default_pools: tuple[str, ...] = DEFAULT_POOLS,
    copy: Copy | None = None,
) -> Decision:
    """Decides what to write, and changes nothing. Raises if a foreign file is there, or an option is wrong.

    `copy` is the node's copy of its network's file, from which a missing one is restored.
    """
    defaults = NetworkOptions(pools=default_pools)
    given = _checked(given, defaults)
    if copy is not None and (os.path.dirname(copy.path) != directory or not is_sound(copy)):
        copy = None
    name = given.network or (copy.name if copy else DEFAULT_NAME)
    path = _place(directory, name, known, copy)
    try:
        before = read(path)
    except OSError as cause:
        raise OperationFailed(
            f"{path}: {cause.strerror}", "fix it or move it away", code="network-file-unreadable"
        ) from None
    if before is None:
        return _written(path, given, defaults) if copy is None else _restored(path, given, copy)
    try:
        values = values_of(before)
        differences = _differences(values, given)
        broken = ""
    except _NotOurs as error:
        values, differences, broken = NetworkOptions(), [str(error)], ""
    except CNIError as error:
        values, differences, broken = NetworkOptions(), [], str(error)
    # A file that is exactly as we would write it is ours, even if the receipt does not list it.
    if values.network and (known.is_ours(path, before) or before == _rendered(values)):
        if given.network not in (None, values.network) and not force:
            raise OperationFailed(
                f"{path} is the network {values.network}, and runtimes delete its containers by that name",
                f"write another file for {given.network}: a copy of this one with that name and other pools, "
                f"such as {directory}/20-{given.network}.conflist; or rename this network with --force",
                code="network-renamed",
                kind="configuration",
            )
        return replace(_noting_dropped(_written(path, given, values), values), before=values.network)
    if not differences and not broken:
        return Decision(path, before, values, is_ours=False)
    if force:
        # The user wants to replace a file that works; a broken one is best restored from the copy.
        use_copy = copy is not None and copy.path == path and values.network is None
        decision = _restored(path, given, copy) if copy and use_copy else _written(path, given, defaults)
        lost = tuple(it for it in _by_hand(before) if it not in _by_hand(decision.content))
        name = values.network or decision.before
        return replace(_noting_dropped(decision, values), lost=lost, before=name)
    if broken:
        raise OperationFailed(
            f"{path} cannot work: {broken}",
            "fix that file (`netloom cni validate` checks it), or replace it: --force writes the last copy "
            "that worked, or a new network with the --pool and other options that you give",
            code="network-broken",
            kind="configuration",
        )
    raise OperationFailed(
        f"{path} was not written by `netloom up`, or was changed since: {'; '.join(differences)}",
        "replace it with --force, or move it away"
        if given == _NOTHING
        else "change that file, leave out the options that differ, or replace it with --force",
        code="network-file-foreign",
        kind="configuration",
    )


def _place(directory: str, name: str, known: Receipt, copy: Copy | None) -> str:
    """Where the network's file is. A user may have renamed it to change the order of networks."""
    path = os.path.join(directory, FILE)
    if os.path.lexists(path):
        return path
    try:
        found = {it.path: it.name for it in node_networks(directory) if it.path.endswith(LISTS)}
    except CNIError:
        found = {}
    same = [it for it in found if found[it] == name]
    default = path if copy is None else copy.path
    return min(same or filter(lambda it: _was_written(it, known), found), default=default)


def _was_written(path: str, known: Receipt) -> bool:
    """Whether `netloom up` wrote a file, here or under another path."""
    try:
        content = read(path)
    except OSError:
        return False
    return content is not None and digest(content) in known.files.values()


def is_as_written(content: bytes) -> bool:
    """Whether a file is exactly as `netloom up` would write it."""
    try:
        return content == _rendered(values_of(content))
    except CNIError:
        return False


def _checked(given: NetworkOptions, defaults: NetworkOptions) -> NetworkOptions:
    """The options with normalised pools, checked as every ADD checks them."""
    try:
        pools = given.pools and tuple(it.cidr for it in parse_pools([PoolConfig(it) for it in given.pools]))
        checked = replace(given, pools=pools)
        check_network(_rendered(replace(checked, pools=pools or defaults.pools)))
    except CNIError as error:
        takes = [text for name, text in _TAKES.items() if getattr(given, name) is not None]
        raise UsageError(str(error), "; ".join(takes)) from None
    return checked


def _written(path: str, given: NetworkOptions, before: NetworkOptions) -> Decision:
    """A decision to write the file. `before` are the file's values, or the defaults without a file."""
    values = NetworkOptions(
        network=given.network or before.network,
        pools=given.pools or before.pools,
        mtu=before.mtu if given.mtu is None else given.mtu,
        masquerade=before.masquerade if given.masquerade is None else given.masquerade,
        cni_version=given.cni_version or before.cni_version,
    )
    content = _rendered(values)
    made = values_of(content)
    known = (before.pools or ()) if before.network else ()
    return Decision(path, content, made, new=tuple(it for it in made.pools or () if it not in known))


def _restored(path: str, given: NetworkOptions, copy: Copy) -> Decision:
    """A decision to write the node's copy exactly, changed only by the given options."""
    content = copy.content.encode()
    before = values_of(content)
    if _differences(before, given):
        content = _changed(content, given)
    values = values_of(content)
    new = tuple(it for it in values.pools or () if it not in (before.pools or ()))
    restored = Decision(path, content, values, new=new, is_restored=True, before=copy.name)
    return _noting_dropped(restored, before)


def _changed(content: bytes, given: NetworkOptions) -> bytes:
    """The same file with other values. Everything else in it stays."""
    document = msgspec.json.decode(content, type=dict[str, Any])
    plugin = next(it for it in document["plugins"] if it.get("type") == "netloom")
    if given.network is not None:
        document["name"] = given.network
    if given.cni_version is not None:
        document["cniVersion"] = given.cni_version
    if given.pools is not None:
        plugin["pools"] = [{"cidr": cidr} for cidr in given.pools]
    if given.masquerade is not None:
        plugin["ipMasq"] = given.masquerade
    if given.mtu == 0:
        plugin.pop("mtu", None)
    elif given.mtu is not None:
        plugin["mtu"] = given.mtu
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _noting_dropped(decision: Decision, before: NetworkOptions) -> Decision:
    """Adds the dropped pools. Pools are replaced as a whole: an IPv4 pool alone also drops the IPv6 pool."""
    left = {_family(pool) for pool in decision.values.pools or ()}
    dropped = tuple(pool for pool in before.pools or () if _family(pool) not in left)
    new = tuple(pool for pool in decision.new if pool not in (before.pools or ()))
    return replace(decision, dropped=dropped, new=new)


def _by_hand(content: bytes) -> tuple[str, ...]:
    """Keys and plugins of a file that `_rendered` never writes; empty if the file cannot be parsed."""
    try:
        config = parse_network(content)
        top = msgspec.json.decode(content, type=dict[str, Any])
    except (CNIError, msgspec.MsgspecError):
        return ()
    plugin = plugin_of(config)
    keys = {} if plugin is None else plugin.raw
    pools = [it for it in keys.get("pools") or () if isinstance(it, dict)]
    others = [f"plugin {it.type}" for it in config.plugins if it is not plugin]
    capabilities = keys.get("capabilities")
    named = {*(top.keys() - _TOP), *(keys.keys() - _PLUGIN)}
    named |= {f"{key} of a pool" for pool in pools for key in pool.keys() - _POOL}
    if isinstance(capabilities, dict):
        named |= {f"capability {key}" for key in capabilities.keys() - set(CAPABILITIES)}
    return (*sorted(named), *others)


def _family(cidr: str) -> int:
    return 6 if ":" in cidr else 4


def _rendered(values: NetworkOptions) -> bytes:
    plugin: dict[str, Any] = {
        "type": "netloom",
        "pools": [{"cidr": cidr} for cidr in values.pools or DEFAULT_POOLS],
        "ipMasq": values.masquerade is not False,
        "capabilities": dict.fromkeys(CAPABILITIES, True),
    }
    if values.mtu:
        plugin["mtu"] = values.mtu
    document = {
        "cniVersion": values.cni_version or DEFAULT_VERSION,
        "name": values.network or DEFAULT_NAME,
        "plugins": [plugin],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def values_of(content: bytes) -> NetworkOptions:
    """The values in a network's file. Raises a `CNIError` if it is not a valid netloom network."""
    config = parse_network(content)
    plugin = plugin_of(config)
    if plugin is None:
        raise _NotOurs(f'network "{config.name}" has no plugin of type netloom')
    check_network(content)
    pools = parse_pools(msgspec.convert(plugin.raw["pools"], list[PoolConfig]))
    return NetworkOptions(
        network=config.name,
        pools=tuple(pool.cidr for pool in pools),
        mtu=int(plugin.raw.get("mtu") or 0),
        masquerade=bool(plugin.raw.get("ipMasq")),
        cni_version=config.cni_version,
    )


def _differences(values: NetworkOptions, given: NetworkOptions) -> list[str]:
    return [
        f"{what} is {_shown(found)}, not {_shown(wanted)}"
        for what, found, wanted in (
            ("its name", values.network, given.network),
            ("its pools", values.pools, given.pools),
            ("its MTU", values.mtu or _UPLINK, given.mtu if given.mtu is None else given.mtu or _UPLINK),
            ("its ipMasq", values.masquerade, given.masquerade),
            ("its cniVersion", values.cni_version, given.cni_version),
        )
        if wanted is not None and found != wanted
    ]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value or "not set")
