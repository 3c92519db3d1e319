"""Findings about the network files of a node: what is wrong with netloom's, and which file runtimes use.

The first file by name counts. containerd loads only that one, and no network if it cannot be loaded (go-cni
stops at the first bad file, and its `max_conf_num` is 1). CRI-O and podman log a file that they cannot load,
and skip it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from itertools import count

from ...api.findings import Finding, Severity
from ...cni import CNIError, NetworkConfig
from ...cni.config import network_from_plugin
from ...cni.load import LISTS, SINGLE_PLUGINS, config_files, load_network_file, load_plugin_file
from ...networks.host import Lack
from ..node.networks import FILE

_CORRECT = "correct it (`netloom cni validate` checks it)"
_REPLACE = (
    ", or replace it: `netloom up --force` writes the last copy that worked, or a new network with the "
    "--pool and other options that you give"
)


def none_configured(directory: str) -> Finding:
    return Finding(
        code="network-none",
        severity="warning",
        subject=directory,
        text=f"no network of netloom is configured in {directory}",
        next="`netloom up` writes one",
    )


def broken(path: str, why: str, network: str = "") -> Finding:
    """`network` is its name, if that can be read."""
    what = f"{network} cannot work: " if network else ""
    replace = _REPLACE if os.path.basename(path) == FILE and os.path.isfile(path) else ""
    return Finding(
        code="network-broken", subject=path, text=f"{path}: {what}{why}", next=f"{_CORRECT}{replace}"
    )


def unknown(network: str) -> Finding:
    return Finding(
        code="network-unknown",
        subject=network,
        text="no file configures a network of this name",
        next="`netloom status` lists the networks of this node",
    )


def host_lacks(network: str, lack: Lack) -> Finding:
    return Finding(
        code="host-lacks",
        subject=network,
        text=f"nothing can be attached to {network} now: {lack.text}",
        next=lack.next,
    )


UNLOADABLE = "network-unloadable"
_OTHERS = "CRI-O and podman skip it"


def of_first_file(directory: str, reported: Collection[str] = ()) -> Iterator[Finding]:
    """Judges the file that keeps containerd from every other; unless it is in `reported`."""
    first = next(iter(_files(directory)), None)
    why = "" if first is None or first in reported else why_unloadable(first)
    if first is not None and why:
        yield _finding(
            first,
            f"{first} is the first file of {directory}, and cannot be loaded: {why}; containerd, which uses "
            f"only the first file, has no network and starts no pods ({_OTHERS})",
            "error" if _may_be_containerd() else "warning",
        )


def of_later_files(directory: str, reported: Collection[str] = ()) -> Iterator[Finding]:
    for path in _files(directory)[1:]:
        why = "" if path in reported else why_unloadable(path)
        if why:
            yield _finding(
                path,
                f"{path} cannot be loaded: {why}; containerd reads it only if its max_conf_num is not 1 "
                f"({_OTHERS})",
                "warning",
            )


def of_files_before(ours: str) -> Iterator[Finding]:
    """Reports the network that runtimes use instead of this file's: the first that sorts before it."""
    found = {path: network for path in files_before(ours) if (network := _loadable(path)) is not None}
    for path, network in list(found.items())[:1]:
        more = f", as {len(found) - 1} more {'does' if len(found) == 2 else 'do'}" if len(found) > 1 else ""
        yield Finding(
            code="network-shadowed",
            severity="warning",
            subject=path,
            text=f"{path} (network {network.name}) sorts before {os.path.basename(ours)}{more}: a runtime "
            "that uses the first file of a directory, as containerd and CRI-O do, uses that one",
            next=f"if containers are to use netloom's network, move that file away ({_away(path)}) or rename "
            "one of the two",
        )


def of_same_name(names: Mapping[str, str]) -> Iterator[Finding]:
    """Reports networks with several files. `names` are the networks' names, by file."""
    paths: dict[str, list[str]] = {}
    for path, name in names.items():
        paths.setdefault(name, []).append(path)
    for name, found in paths.items():
        if len(found) > 1:
            yield Finding(
                code="network-twice",
                severity="warning",
                subject=name,
                text=f"network {name} has {len(found)} files: {', '.join(sorted(found))}",
                next="delete all but one of them, or give each its own `name`",
            )


def files_before(path: str) -> list[str]:
    directory, name = os.path.split(path)
    return [it for it in _files(directory) if os.path.basename(it) < name]


def load(path: str) -> NetworkConfig:
    """Loads a file as runtimes do that go by its name."""
    if path.endswith(LISTS):
        return load_network_file(path)
    return network_from_plugin(load_plugin_file(path))


def why_unloadable(path: str) -> str:
    """Returns why runtimes cannot load a file; empty if they can."""
    try:
        load(path)
    except CNIError as error:
        return "; ".join(filter(None, (error.msg, error.details)))  # the context is the path
    return ""


def _loadable(path: str) -> NetworkConfig | None:
    try:
        return load(path)
    except CNIError:
        return None


def _finding(path: str, text: str, severity: Severity) -> Finding:
    return Finding(
        code=UNLOADABLE,
        severity=severity,
        subject=path,
        text=text,
        next=f"correct it, or move it away ({_away(path)}); `netloom cni validate` checks every file",
    )


def _away(path: str) -> str:
    from ...api.text import for_shell

    free = (f"{path}.off{number or ''}" for number in count())
    return f"`mv {for_shell(path)} {for_shell(next(it for it in free if not os.path.lexists(it)))}`"


def _files(directory: str) -> list[str]:
    """Returns files by name, whatever their ending. Runtimes skip directories, too."""
    try:
        return sorted(config_files(directory, LISTS + SINGLE_PLUGINS), key=os.path.basename)
    except CNIError:
        return []  # the node's report has a finding for it


def _may_be_containerd() -> bool:
    """False if runtimes were found and containerd is not among them: the file then blocks no runtime."""
    from ..runtimes.runtimes import runtimes

    found = runtimes()
    return not found or any(it.name.startswith("containerd") for it in found)
