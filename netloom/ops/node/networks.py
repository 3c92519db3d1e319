"""Networks of `type: netloom` in the files that runtimes read, and the copies in the state directory."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import networks_of
from ...cni import (
    CNIError,
    Endpoint,
    InvalidConfig,
    NetworkConfig,
    PluginConfig,
    Problem,
    load_networks,
    network_from_plugin,
    parse_network,
    parse_plugin,
)
from ...cni.load import SINGLE_PLUGINS
from ...cni.request import configuration, parameters
from ...cni.skel import Request, judge_config, request_of
from ...ipam import Pool, PoolConfig, parse_pools
from ...networks.config import Network, hint, misspelled, network_of
from .install import Receipt, digest, put, read

CODE = "network-file-missing"


class Copy(Struct, frozen=True):
    """A network's file as it was when it last worked. `is_restored`: the agent wrote it from this copy."""

    name: str
    path: str
    content: str
    is_restored: bool = False


class _Store(Struct, frozen=True):
    networks: tuple[Copy, ...] = ()


class Missing(Struct, frozen=True):
    """A network without a file. `is_own`: `netloom up` configured it. `is_taken`: its path has a file."""

    copy: Copy
    is_own: bool
    is_taken: bool


def copies(state_dir: str) -> tuple[Copy, ...]:
    """Reads the store; empty if it is missing or damaged: the agent then writes another."""
    try:
        content = read(networks_of(state_dir))
        return () if content is None else msgspec.json.decode(content, type=_Store).networks
    except (OSError, ValueError, RecursionError):
        return ()


def keep_copies(state_dir: str, kept: Iterable[Copy]) -> None:
    """Writes the store, readable only by root: a network's file may hold secrets."""
    put(networks_of(state_dir), msgspec.json.encode(_Store(tuple(kept))) + b"\n", 0o600)


def keep_copy(state_dir: str, copy: Copy) -> None:
    """Stores a copy, and replaces the one with the same name."""
    kept = copies(state_dir)
    keep_copies(state_dir, [*(it for it in kept if it.name != copy.name), copy])


def own_copy(known: Receipt, kept: Sequence[Copy]) -> Copy | None:
    """Returns the copy of the network that `netloom up` configured, even if it was renamed since."""
    by_name = (it for it in kept if it.name == known.network)
    by_path = (it for it in kept if it.path in known.files)
    return next(by_name, None) or next(by_path, None)


def is_sound(copy: Copy) -> bool:
    """Whether the agent would serve the network: a copy may be of another version, or edited by hand."""
    try:
        config = _parsed(copy)
        check_config(config)
    except CNIError:
        return False
    return config.name == copy.name


def _parsed(copy: Copy) -> NetworkConfig:
    """Parses the copy as a runtime would parse a file of that name: a list, or a single plugin."""
    content = copy.content.encode()
    if copy.path.endswith(SINGLE_PLUGINS):
        return network_from_plugin(parse_plugin(content))
    return parse_network(content)


def pools_of(copy: Copy) -> tuple[Pool, ...]:
    """Returns the pools of its network; none if the copy is invalid."""
    try:
        plugin = plugin_of(_parsed(copy))
        return () if plugin is None else parse_pools(msgspec.convert(plugin.raw["pools"], list[PoolConfig]))
    except (CNIError, LookupError, msgspec.MsgspecError):
        return ()


def renewed(
    kept: Sequence[Copy], found: FoundNetworks, known: Receipt, attached: Collection[str]
) -> tuple[Copy, ...]:
    """Returns the copies to keep: of the network of `netloom up`, and of those with attachments."""
    own = own_copy(known, kept)
    restored = {replace(it, is_restored=False) for it in kept if it.is_restored}
    fresh: dict[str, Copy] = {}
    for it in found.networks:
        if it.network is None or it.name in fresh:  # of two files of one name, the first counts
            continue
        copy = _copied(it)
        if copy is not None and (it.name in attached or _is_own(copy, own, known)):
            fresh[it.name] = replace(copy, is_restored=copy in restored)
    taken = {it.path for it in fresh.values()}
    stay = (it for it in kept if it.name not in fresh)
    # If the file now has another name, the network was renamed, unless containers still use the old name.
    left = [it for it in stay if it.name in attached or (it == own and it.path not in taken)]
    return tuple(sorted([*fresh.values(), *left], key=lambda it: it.path))


def _copied(found: NodeNetwork) -> Copy | None:
    try:
        content = read(found.path)
        copy = Copy(found.name, found.path, (content or b"").decode())
    except (OSError, UnicodeDecodeError):
        return None
    return copy if is_sound(copy) else None


def _is_own(copy: Copy, own: Copy | None, known: Receipt) -> bool:
    return (
        copy.name == (own.name if own else known.network)
        or copy.path in known.files
        or digest(copy.content.encode()) in known.files.values()
    )


def missing(
    directory: str, kept: Sequence[Copy], found: FoundNetworks, known: Receipt, attached: Collection[str]
) -> Iterator[Missing]:
    """Yields networks without a file in the directory. Unreadable files are reported elsewhere."""
    own = own_copy(known, kept)
    names = {it.name for it in found.networks}
    unread = {it.path for it in found.problems}
    held = {it.path for it in found.networks}
    for it in kept:
        if os.path.dirname(it.path) != os.path.normpath(directory) or it.name in names:
            continue
        if it.path in unread or directory in unread:
            continue
        is_attached = it.name in attached
        is_renamed = it.path in held and not is_attached
        if is_attached or (it == own and not is_renamed):
            yield Missing(it, it == own, os.path.lexists(it.path))


def finding_of(lost: Missing) -> Finding:
    """An error for the network of `netloom up`; other networks may have been removed on purpose."""
    name, path = lost.copy.name, lost.copy.path
    if lost.is_taken:
        text = f"{path} no longer configures network {name}"
        remedy = f"move {path} away, then `netloom up` restores the network's own file"
    else:
        text = f"{path}, the file of network {name}, is missing"
        remedy = "`netloom up` restores it"
    if lost.is_own:
        text += ": runtimes cannot attach containers to it"
    else:
        text += ", and containers are attached to it: a runtime may fail to delete them"
    return Finding(
        code=CODE,
        severity="error" if lost.is_own else "warning",
        subject=path,
        text=text,
        next=remedy,
    )


TYPE = "netloom"
# The file that `netloom up` writes.
FILE = "10-netloom.conflist"
_NO_ENDPOINT = Endpoint("", "", "")


class NodeNetwork(Struct, frozen=True):
    """A network of netloom and its file. Without `network`, `error` says why it cannot work.

    `discreet` is the error without values of the file, which may be secret.
    """

    path: str
    config: NetworkConfig
    network: Network | None
    error: str = ""
    discreet: str = ""

    @property
    def name(self) -> str:
        return self.config.name


class FoundNetworks(Struct, frozen=True):
    """Networks of netloom, and files that were meant to be one, but are invalid."""

    networks: tuple[NodeNetwork, ...] = ()
    problems: tuple[Problem, ...] = ()


def node_networks(directory: str) -> list[NodeNetwork]:
    return found_in(directory)[0]


def found_in(directory: str) -> tuple[list[NodeNetwork], list[Problem]]:
    """Returns networks of netloom, and files that were meant to be one, but are invalid."""
    catalogue = load_networks(directory)
    networks = [
        _judged(loaded.path, loaded.network)
        for loaded in catalogue.networks
        if plugin_of(loaded.network) is not None
    ]
    return networks, [it for it in catalogue.problems if _is_meant_for_us(it.path)]


def _is_meant_for_us(path: str) -> bool:
    """Judges a file that cannot be parsed: by its name, or by the name of netloom's plugin in it."""
    try:
        return os.path.basename(path) == FILE or f'"{TYPE}"'.encode() in (read(path) or b"")
    except OSError:
        return False


def _judged(path: str, config: NetworkConfig) -> NodeNetwork:
    try:
        return NodeNetwork(path, config, network_of(request(config, "STATUS")))
    except CNIError as error:
        return NodeNetwork(path, config, None, str(error), error.discreet)


def refusals(config: NetworkConfig) -> list[CNIError]:
    """Returns why the agent would refuse every ADD: the first wrong key of each plugin of netloom."""
    found: list[CNIError] = []
    for plugin in config.plugins:
        if plugin.type == TYPE:
            try:
                network_of(_asked(plugin, config, "STATUS", _NO_ENDPOINT))
            except CNIError as error:
                found.append(error)
    return found


def misspellings(config: NetworkConfig) -> dict[str, str]:
    """Returns keys without effect that may be misspelt keys of netloom, each with a hint."""
    return {
        key: f"plugin netloom: {hint(key, meant)}"
        for plugin in config.plugins
        if plugin.type == TYPE
        for key, meant in misspelled(plugin.raw)
    }


def plugin_of(config: NetworkConfig) -> PluginConfig | None:
    return next((plugin for plugin in config.plugins if plugin.type == TYPE), None)


def request(config: NetworkConfig, verb: str, endpoint: Endpoint = _NO_ENDPOINT) -> Request:
    """Returns the request that the agent would get for the network, which must have netloom's plugin."""
    plugin = plugin_of(config)
    assert plugin is not None
    return _asked(plugin, config, verb, endpoint)


def _asked(plugin: PluginConfig, config: NetworkConfig, verb: str, endpoint: Endpoint) -> Request:
    source = configuration(
        plugin,
        name=config.name,
        cni_version=config.cni_version,
        capability_args=endpoint.capability_args,
    )
    return request_of(verb, parameters(verb, (), endpoint), judge_config(source), source)


def check_network(source: bytes) -> None:
    """Raises a `CNIError` if the agent would refuse every ADD to a network with this configuration."""
    check_config(parse_network(source))


def check_config(config: NetworkConfig) -> None:
    """Does the same for a parsed configuration."""
    if plugin_of(config) is None:
        raise InvalidConfig(f"network {config.name} has no plugin of type {TYPE}")
    network_of(request(config, "STATUS"))


# Limit for networks whose files are elsewhere; a runtime has only a few.
_MOST = 64

# Name, inode, size and times of a file: while these do not change, neither does its content.
_Stamps: TypeAlias = tuple[tuple[str, int, int, int, int], ...]


class NamedPool(Struct, frozen=True):
    """A pool of a network. `is_asked`: the network is known from an ADD, and has no file."""

    network: str
    pool: Pool
    scope: str
    cooldown: float
    is_asked: bool = False


class NetworkFiles:
    """The networks of a directory, read again only when a file changes, and those that ADDs named."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._asked: dict[str, Network] = {}
        self._seen: _Stamps | None = None
        self._found = FoundNetworks()

    def asked(self, name: str, network: Network) -> None:
        """Records that an ADD named this network."""
        if name in self._asked or len(self._asked) < _MOST:
            self._asked[name] = network

    def found(self) -> FoundNetworks:
        """Reads files, so the event loop's thread must not call it."""
        stamps = _stamps_of(self.directory)
        if stamps != self._seen:
            try:
                networks, problems = found_in(self.directory)
                self._found = FoundNetworks(tuple(networks), tuple(problems))
            except CNIError as error:
                self._found = FoundNetworks(problems=(Problem(self.directory, error),))
            self._seen = stamps
        return self._found

    def pools(self) -> list[NamedPool]:
        """Returns pools of files, then those that only ADDs named: a file's network replaces an ADD's."""
        files = reversed(self.found().networks)  # of two files of one name, the first counts
        listed = {it.name: it.network for it in files if it.network is not None}
        return [
            NamedPool(name, pool, network.scope, network.cooldown, is_asked)
            for is_asked, networks in ((False, listed), (True, dict(self._asked)))
            for name, network in networks.items()
            if not is_asked or name not in listed
            for pool in network.pools
        ]


def _stamps_of(directory: str) -> _Stamps:
    try:
        return tuple(sorted(_entries(directory, inside=True)))
    except OSError as cause:
        return ((directory, 0, cause.errno or 0, 0, 0),)


def _entries(directory: str, *, inside: bool) -> Iterator[tuple[str, int, int, int, int]]:
    """Lists files; with `inside`, those in subdirectories, too, which may have a list's plugins."""
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(OSError):  # it was deleted just now, or is a dangling link
                found = entry.stat()
                yield entry.path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                if inside and entry.is_dir(follow_symlinks=False):
                    yield from _entries(entry.path, inside=False)
