"""Copies of networks' files in the state directory: what this node had, for when a file is missing.

A network's file is not safe where it is: `podman network prune` and `podman system prune` delete every
network that no container uses, and take netloom's for podman's own. `netloom up` keeps a copy of the file
that it writes; the agent keeps up with changes by hand, and adds networks that have attachments.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...api.findings import Finding
from ...cni import CNIError, NetworkConfig, network_from_plugin, parse_network, parse_plugin
from ...cni.load import SINGLE_PLUGINS
from ...ipam import Pool, PoolConfig, parse_pools
from .install import Receipt, digest, put, read
from .networks import Found, NodeNetwork, check_config, plugin_of

# In the state directory.
STORE = "networks.json"
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
    """A network that no file has. `is_own`: `netloom up` configured it. `is_taken`: its path has a file."""

    copy: Copy
    is_own: bool
    is_taken: bool


def copies(state_dir: str) -> tuple[Copy, ...]:
    """Empty if there is no store, or a damaged one: the agent writes another."""
    try:
        content = read(os.path.join(state_dir, STORE))
        return () if content is None else msgspec.json.decode(content, type=_Store).networks
    except (OSError, ValueError, RecursionError):
        return ()


def keep_copies(state_dir: str, kept: Iterable[Copy]) -> None:
    """For root alone: a network's file may hold secrets."""
    put(os.path.join(state_dir, STORE), msgspec.json.encode(_Store(tuple(kept))) + b"\n", 0o600)


def keep_copy(state_dir: str, copy: Copy) -> None:
    """In the place of the one that had its name."""
    kept = copies(state_dir)
    keep_copies(state_dir, [*(it for it in kept if it.name != copy.name), copy])


def own_copy(known: Receipt, kept: Sequence[Copy]) -> Copy | None:
    """Of the network that `netloom up` configured, also if somebody has given it another name since."""
    by_name = (it for it in kept if it.name == known.network)
    by_path = (it for it in kept if it.path in known.files)
    return next(by_name, None) or next(by_path, None)


def is_sound(copy: Copy) -> bool:
    """Whether the agent would serve it: a copy may be of another version, or changed by hand."""
    try:
        config = _parsed(copy)
        check_config(config)
    except CNIError:
        return False
    return config.name == copy.name


def _parsed(copy: Copy) -> NetworkConfig:
    """As a runtime reads a file of that name: a list, or a single plugin."""
    content = copy.content.encode()
    if copy.path.endswith(SINGLE_PLUGINS):
        return network_from_plugin(parse_plugin(content))
    return parse_network(content)


def pools_of(copy: Copy) -> tuple[Pool, ...]:
    """What its network had; none of a copy that does not work."""
    try:
        plugin = plugin_of(_parsed(copy))
        return () if plugin is None else parse_pools(msgspec.convert(plugin.raw["pools"], list[PoolConfig]))
    except (CNIError, LookupError, msgspec.MsgspecError):
        return ()


def renewed(
    kept: Sequence[Copy], found: Found, known: Receipt, attached: Collection[str]
) -> tuple[Copy, ...]:
    """The copies as they should be now: of the network of `netloom up`, and of those with attachments."""
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
    # A file of ours that has another name by now was renamed, unless containers still use the old name.
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
    directory: str, kept: Sequence[Copy], found: Found, known: Receipt, attached: Collection[str]
) -> Iterator[Missing]:
    """Networks that no file of the directory has. A file that cannot be read is told of by others."""
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
    """Without a network of its own, a node attaches nothing; others may be on their way out."""
    name, path = lost.copy.name, lost.copy.path
    if lost.is_taken:
        text = f"{path} does not hold network {name} any more"
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
