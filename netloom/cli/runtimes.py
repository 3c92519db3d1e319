"""Where the container runtimes of this machine look for networks and plugins, as their own files say it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from ..cni.files import read_document
from .containerd_files import INSTANCES, Instance, cni_tables, switched_off
from .place import CONF_DIR
from .runtime_files import RuntimeFiles, Unreadable, matching, with_imports

_CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*.conf")
_PODMAN = (
    "/usr/share/containers/containers.conf",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/*.conf",
)
# Podman writes down which of its two ways it has taken when it was first used.
_PODMAN_WAY = "/var/lib/containers/storage/defaultNetworkBackend"
_PROGRAMS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin")


class Runtime(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"conf_dir": "confDir", "plugin_dirs": "pluginDirs", "plugin_path": "pluginPath"},
):
    """A container runtime on this machine, and where it looks for networks and plugins."""

    name: Annotated[
        str,
        Meta(description="`containerd`, `containerd of k3s`, `containerd of rke2`, `CRI-O` or `podman`"),
    ]
    path: Annotated[str, Meta(description="the file that says so; empty: it is the default")]
    conf_dir: Annotated[str, Meta(description="its directory of networks; empty: it uses none")]
    note: Annotated[str, Meta(description="what else keeps it from netloom; empty if nothing does")]
    remedy: Annotated[str, Meta(description="what to do about that; empty if nothing is to be done")] = ""
    chosen: Annotated[str, Meta(description="the only network that it uses; empty: the first it finds")] = ""
    plugin_path: Annotated[str, Meta(description="the file that names `pluginDirs`; empty: none does")] = ""
    plugin_dirs: Annotated[
        tuple[str, ...], Meta(description="its directories of plugins; empty: the default")
    ] = ()
    unreadable: Annotated[
        tuple[Unreadable, ...], Meta(description="files of it of which nobody knows what they say")
    ] = ()


class _Places(NamedTuple):
    """What files have said up to here, and which of them did."""

    path: str = ""
    conf_dir: str = CONF_DIR
    plugin_path: str = ""
    plugin_dirs: tuple[str, ...] = ()

    def after(self, path: str, table: Mapping[str, Any], networks: str, *plugins: str) -> _Places:
        """With what a later file says, by the names of its keys."""
        now = self
        conf_dir = _directories(table.get(networks))
        if conf_dir:
            now = now._replace(path=path, conf_dir=conf_dir[0])
        plugin_dirs = next(filter(None, (_directories(table.get(key)) for key in plugins)), ())
        if plugin_dirs:
            now = now._replace(plugin_path=path, plugin_dirs=plugin_dirs)
        return now


def runtimes() -> list[Runtime]:
    """Those that are installed or configured."""
    found = (*map(_containerd, INSTANCES), _crio(), _podman())
    return [it for it in found if it is not None]


def _containerd(instance: Instance) -> Runtime | None:
    files = with_imports(instance.path)
    if not files and not (instance.program and _is_installed(instance.program)):
        return None
    places = _Places()
    for table in cni_tables(files.said):
        before = _Places() if table.is_whole else places
        places = before.after(table.path, table.cni, "conf_dir", "bin_dirs", "bin_dir")
    off = switched_off(files.said)
    note = f"its CRI plugin, which uses networks for pods, is switched off in {off}" if off else ""
    return _runtime(instance.name, files, places, note)


def _crio() -> Runtime | None:
    files = matching(_CRIO)
    if not files and not _is_installed("crio"):
        return None
    places, note, network_name = _Places(), "", ""
    for it in files.said:
        network = _table(_table(it.document, "crio"), "network")
        places = places.after(it.path, network, "network_dir", "plugin_dirs")
        chosen = network.get("cni_default_network")
        if isinstance(chosen, str) and chosen:
            note, network_name = f"it is told to use the network {chosen!r} in {it.path}", chosen
    return _runtime("CRI-O", files, places, note, chosen=network_name)


def _podman() -> Runtime | None:
    files = matching(_PODMAN)
    if not files and not _is_installed("podman"):
        return None
    way = _first_line(_PODMAN_WAY)
    said_in = _PODMAN_WAY if way else ""
    places = _Places()
    for it in files.said:
        network = _table(it.document, "network")
        places = places.after(it.path, network, "network_config_dir", "cni_plugin_dirs")
        chosen = network.get("network_backend")
        if isinstance(chosen, str) and chosen:
            way, said_in = chosen, it.path
    if way and way != "cni":
        note = f"it uses {way} and no CNI at all ({said_in})"
        remedy = (
            'set `network_backend = "cni"` in section `[network]` of /etc/containers/containers.conf, and '
            "create the containers again"
        )
        return _runtime("podman", files, places._replace(path=said_in, conf_dir=""), note, remedy=remedy)
    return _runtime("podman", files, places, "")


def _runtime(
    name: str, files: RuntimeFiles, places: _Places, note: str, *, remedy: str = "", chosen: str = ""
) -> Runtime:
    return Runtime(
        name=name,
        note=note,
        remedy=remedy,
        chosen=chosen,
        unreadable=files.unreadable,
        **places._asdict(),
    )


def _directories(value: object) -> tuple[str, ...]:
    """One, or a list of them. Services run in the root directory, should one be relative."""
    some = value if isinstance(value, list) else [value]
    return tuple(os.path.join("/", it) for it in some if isinstance(it, str) and it and "\0" not in it)


def _table(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _first_line(path: str) -> str:
    try:
        return read_document(path).decode(errors="replace").partition("\n")[0][:64].strip()
    except OSError:
        return ""


def _is_installed(program: str) -> bool:
    return any(os.access(os.path.join(directory, program), os.X_OK) for directory in _PROGRAMS)
