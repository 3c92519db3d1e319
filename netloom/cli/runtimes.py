"""Where the container runtimes of this machine look for networks, as their own files say it."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from .place import CONF_DIR

_CONTAINERD = ("/etc/containerd/config.toml", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml")
_CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*.conf")
_PODMAN = (
    "/usr/share/containers/containers.conf",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/*.conf",
)
# Podman writes down which of its two ways it has taken when it was first used.
_PODMAN_WAY = "/var/lib/containers/storage/defaultNetworkBackend"
_PROGRAMS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin")


class Runtime(Struct, frozen=True, kw_only=True, rename={"conf_dir": "confDir"}):
    """A container runtime on this machine, and where it looks for networks."""

    name: Annotated[str, Meta(description="`containerd`, `CRI-O` or `podman`")]
    path: Annotated[str, Meta(description="the file that says so; empty: it is the default")]
    conf_dir: Annotated[str, Meta(description="its directory of networks; empty: it uses none")]
    note: Annotated[str, Meta(description="what else keeps it from netloom; empty if nothing does")]


def runtimes() -> list[Runtime]:
    """Those that are installed or configured."""
    return [it for it in (_containerd(), _crio(), _podman()) if it is not None]


def _containerd() -> Runtime | None:
    """Of its versions 1 and 2, which have different names for the same table."""
    path, directory, note = "", CONF_DIR, ""
    documents = list(_read(_CONTAINERD))
    for found, document in documents:
        for plugin in _tables(document.get("plugins")):
            cni = plugin.get("cni")
            if isinstance(cni, Mapping) and isinstance(cni.get("conf_dir"), str) and cni["conf_dir"]:
                path, directory = found, cni["conf_dir"]
        disabled = document.get("disabled_plugins")
        if isinstance(disabled, list) and any("cri" in str(it).split(".") for it in disabled):
            note = f"its CRI plugin, which uses networks for pods, is switched off in {found}"
    if not documents and not _is_installed("containerd"):
        return None
    return Runtime(name="containerd", path=path, conf_dir=directory, note=note)


def _crio() -> Runtime | None:
    path, directory, note = "", CONF_DIR, ""
    documents = list(_read(_CRIO))
    for found, document in documents:
        for network in _tables(document.get("crio"), "network"):
            if isinstance(network.get("network_dir"), str) and network["network_dir"]:
                path, directory = found, network["network_dir"]
            chosen = network.get("cni_default_network")
            if isinstance(chosen, str) and chosen:
                note = f"it is told to use the network {chosen!r} in {found}"
    if not documents and not _is_installed("crio"):
        return None
    return Runtime(name="CRI-O", path=path, conf_dir=directory, note=note)


def _podman() -> Runtime | None:
    path, directory, way = "", CONF_DIR, _first_line(_PODMAN_WAY)
    said_in = _PODMAN_WAY if way else ""
    documents = list(_read(_PODMAN))
    for found, document in documents:
        for network in _tables({"network": document.get("network")}, "network"):
            if isinstance(network.get("network_config_dir"), str) and network["network_config_dir"]:
                path, directory = found, network["network_config_dir"]
            if isinstance(network.get("network_backend"), str) and network["network_backend"]:
                way, said_in = network["network_backend"], found
    if not documents and not _is_installed("podman"):
        return None
    if way and way != "cni":
        note = f"it uses {way} and no CNI at all ({said_in})"
        return Runtime(name="podman", path=said_in, conf_dir="", note=note)
    return Runtime(name="podman", path=path, conf_dir=directory, note="")


def _tables(value: object, name: str | None = None) -> Iterator[Mapping[str, Any]]:
    """The tables in a table, or the one of a name."""
    if isinstance(value, Mapping):
        for key, it in value.items():
            if isinstance(it, Mapping) and name in (None, key):
                yield it


def _read(patterns: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """In the order in which they count, the later over the earlier; what is no TOML is left to its owner."""
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    if not paths:
        return
    import tomllib

    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        if path in seen:
            continue
        seen.add(path)
        try:
            with open(path, "rb") as file:
                document = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            continue
        yield path, document
        imports = document.get("imports")
        if isinstance(imports, list):
            paths[:0] = [found for it in imports for found in sorted(glob.glob(str(it)))]


def _first_line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline(64).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_installed(program: str) -> bool:
    return any(os.access(os.path.join(directory, program), os.X_OK) for directory in _PROGRAMS)
