"""containerd's files: where they are, and which part of each is about CNI, by its version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .runtime_files import Said

# What the CRI plugin's table is called in files of each version.
_TABLE = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
# From here on, files are merged key by key. Before, the last that has the plugin's table has all of it.
_MERGED = 3


class Instance(NamedTuple):
    """A containerd that a machine may have, `program` if it can do without a file.

    What `is_generated` is written anew, from a template beside it, whenever its owner starts.
    """

    name: str
    path: str
    program: str = ""
    is_generated: bool = False


INSTANCES = (
    Instance("containerd", "/etc/containerd/config.toml", program="containerd"),
    *(
        Instance(
            f"containerd of {owner}",
            f"/var/lib/rancher/{owner}/agent/etc/containerd/config.toml",
            is_generated=True,
        )
        for owner in ("k3s", "rke2")
    ),
)


class CniTable(NamedTuple):
    """`cni` in the CRI plugin's table of one file; `is_whole` if nothing counts that was said before."""

    path: str
    cni: Mapping[str, Any]
    is_whole: bool


def cni_tables(said: Sequence[Said]) -> Iterator[CniTable]:
    if not said:
        return
    main = _version(said[0]) or 1
    for it in said:
        plugins = it.document.get("plugins")
        for name in _names(_version(it), main):
            table = plugins.get(name) if isinstance(plugins, Mapping) else None
            if isinstance(table, Mapping):
                cni = table.get("cni")
                yield CniTable(it.path, cni if isinstance(cni, Mapping) else {}, main < _MERGED)


def switched_off(said: Sequence[Said]) -> str:
    """The file that switches the CRI plugin off, if one does: what any of them lists is off."""
    for it in said:
        disabled = it.document.get("disabled_plugins")
        if isinstance(disabled, list) and any("cri" in str(uri).split(".") for uri in disabled):
            return it.path
    return ""


def to_change(path: str) -> str:
    """What to change for another setting than the one in a file."""
    if path not in {it.path for it in INSTANCES if it.is_generated}:
        return path
    return (
        f"the template beside {path}, from which that is written anew (config-v3.toml.tmpl for containerd 2, "
        "config.toml.tmpl for older ones),"
    )


def _names(own: int, main: int) -> tuple[str, ...]:
    """An import without a version is of its importer's; containerd 2 takes such a one for older, too."""
    if own:
        return (_TABLE[min(own, max(_TABLE))],)
    return tuple(_TABLE.values()) if main >= _MERGED else (_TABLE[main],)


def _version(it: Said) -> int:
    """0 if it has none."""
    version = it.document.get("version")
    return version if isinstance(version, int) and version > 0 else 0
