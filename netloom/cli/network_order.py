"""What runtimes make of the files of networks: the first by name counts, also if it cannot be loaded.

containerd loads the first file, and none at all if that cannot be loaded (go-cni gives up at the first bad
one, and its `max_conf_num` is 1). CRI-O and podman log what they cannot load, and pass it over.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from ..cni import CNIError
from ..cni.config import network_from_plugin
from ..cni.load import LISTS, SINGLE_PLUGINS, config_files, load_network_file, load_plugin_file
from ..findings import Finding, Severity

CODE = "network-unloadable"
_OTHERS = "CRI-O and podman pass it over"


def of_first_file(directory: str, told: Collection[str] = ()) -> Iterator[Finding]:
    """Of the one file that keeps containerd from every other. What others have `told` of is left to them."""
    first = next(iter(_files(directory)), None)
    why = "" if first is None or first in told else why_unloadable(first)
    if first is not None and why:
        yield _finding(
            first,
            f"{first} is the first file of {directory}, and cannot be loaded: {why}; containerd, which takes "
            f"the first file only, has no network at all then, and starts no pod ({_OTHERS})",
            "error" if _may_be_containerd() else "warning",
        )


def of_later_files(directory: str, told: Collection[str] = ()) -> Iterator[Finding]:
    for path in _files(directory)[1:]:
        why = "" if path in told else why_unloadable(path)
        if why:
            yield _finding(
                path,
                f"{path} cannot be loaded: {why}; containerd does not look at it, unless its max_conf_num is "
                f"another than 1 ({_OTHERS})",
                "warning",
            )


def why_unloadable(path: str) -> str:
    """As runtimes that go by the names of files load it; empty if they can."""
    try:
        if path.endswith(LISTS):
            load_network_file(path)
        else:
            network_from_plugin(load_plugin_file(path))
    except CNIError as error:
        return str(error).removeprefix(f"error reading {path}: ").removeprefix(f"{path}: ")
    return ""


def _finding(path: str, text: str, severity: Severity) -> Finding:
    from .quoting import for_shell  # which a node that is well never needs

    away = f"`mv {for_shell(path)} {for_shell(f'{path}.off')}`"
    return Finding(
        code=CODE,
        severity=severity,
        subject=path,
        text=text,
        next=f"move it away ({away}), or mend it; `netloom cni validate` checks every file",
    )


def _files(directory: str) -> list[str]:
    """By name, whatever the ending. Runtimes, too, pass over what is a directory."""
    try:
        return sorted(config_files(directory, LISTS + SINGLE_PLUGINS), key=os.path.basename)
    except CNIError:
        return []  # which the node's report tells of


def _may_be_containerd() -> bool:
    """On a machine whose runtimes are all known, and none of them is it, nobody is kept from anything."""
    from .runtimes import runtimes

    found = runtimes()
    return not found or any(it.name.startswith("containerd") for it in found)
