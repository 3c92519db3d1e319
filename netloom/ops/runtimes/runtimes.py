"""Container runtimes of this machine: where each looks for networks and plugins, by its own files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from ...api.paths import DEFAULT_CONF_DIR
from ...cni.files import read_document

_CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*.conf")
_PODMAN = (
    "/usr/share/containers/containers.conf",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/*.conf",
)
# Podman records here which network backend it chose when it was first used.
_PODMAN_WAY = "/var/lib/containers/storage/defaultNetworkBackend"
_PROGRAMS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin")


class ContainerRuntime(
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
    note: Annotated[str, Meta(description="what else keeps it from using netloom; empty if nothing does")]
    remedy: Annotated[str, Meta(description="what to do about that; empty if nothing is to be done")] = ""
    chosen: Annotated[str, Meta(description="the only network that it uses; empty: the first it finds")] = ""
    plugin_path: Annotated[str, Meta(description="the file that names `pluginDirs`; empty: none does")] = ""
    plugin_dirs: Annotated[
        tuple[str, ...], Meta(description="its directories of plugins; empty: the default")
    ] = ()
    unreadable: Annotated[tuple[UnreadableFile, ...], Meta(description="its files that cannot be read")] = ()


class _Places(NamedTuple):
    """Directories that the files read so far set, and the files that set them."""

    path: str = ""
    conf_dir: str = DEFAULT_CONF_DIR
    plugin_path: str = ""
    plugin_dirs: tuple[str, ...] = ()

    def after(self, path: str, table: Mapping[str, Any], networks: str, *plugins: str) -> _Places:
        """With the settings of a later file, whose keys are given."""
        now = self
        conf_dir = _directories(table.get(networks))
        if conf_dir:
            now = now._replace(path=path, conf_dir=conf_dir[0])
        plugin_dirs = next(filter(None, (_directories(table.get(key)) for key in plugins)), ())
        if plugin_dirs:
            now = now._replace(plugin_path=path, plugin_dirs=plugin_dirs)
        return now


def runtimes() -> list[ContainerRuntime]:
    """The runtimes that are installed or configured."""
    found = (*map(_containerd, INSTANCES), _crio(), _podman())
    return [it for it in found if it is not None]


def _containerd(instance: Instance) -> ContainerRuntime | None:
    files = with_imports(instance.path)
    if not files and not (instance.program and _is_installed(instance.program)):
        return None
    places = _Places()
    for table in cni_tables(files.said):
        before = _Places() if table.is_whole else places
        places = before.after(table.path, table.cni, "conf_dir", "bin_dirs", "bin_dir")
    off = switched_off(files.said)
    note = f"its CRI plugin, which uses networks for pods, is disabled in {off}" if off else ""
    return _runtime(instance.name, files, places, note)


def _crio() -> ContainerRuntime | None:
    files = matching(_CRIO)
    if not files and not _is_installed("crio"):
        return None
    places, note, network_name = _Places(), "", ""
    for it in files.said:
        network = _table(_table(it.document, "crio"), "network")
        places = places.after(it.path, network, "network_dir", "plugin_dirs")
        chosen = network.get("cni_default_network")
        if isinstance(chosen, str) and chosen:
            note, network_name = f"it uses only the network {chosen!r}, as {it.path} says", chosen
    return _runtime("CRI-O", files, places, note, chosen=network_name)


def _podman() -> ContainerRuntime | None:
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
        note = f"it uses {way} and not CNI ({said_in})"
        remedy = (
            'set `network_backend = "cni"` in section `[network]` of /etc/containers/containers.conf, and '
            "create the containers again"
        )
        return _runtime("podman", files, places._replace(path=said_in, conf_dir=""), note, remedy=remedy)
    return _runtime("podman", files, places, "")


def _runtime(
    name: str, files: RuntimeFiles, places: _Places, note: str, *, remedy: str = "", chosen: str = ""
) -> ContainerRuntime:
    return ContainerRuntime(
        name=name,
        note=note,
        remedy=remedy,
        chosen=chosen,
        unreadable=files.unreadable,
        **places._asdict(),
    )


def _directories(value: object) -> tuple[str, ...]:
    """A directory, or a list of them. A relative one is below /, in which services run."""
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


# Real files are smaller, and parsing a larger one could take minutes.
_LARGEST = 1 << 20
_MOST = 500


class UnreadableFile(Struct, frozen=True):
    """A file that its runtime would read, and that cannot be read."""

    path: Annotated[str, Meta(description="the file")]
    why: Annotated[str, Meta(description="what is wrong with it")]


class Said(Struct, frozen=True):
    """The content of one file."""

    path: str
    document: Mapping[str, Any]


class RuntimeFiles(Struct, frozen=True):
    said: tuple[Said, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.said or self.unreadable)


def matching(patterns: Iterable[str]) -> RuntimeFiles:
    """The files of a runtime that reads them in the order of their names."""
    return _sorted_out(
        _read(path) for pattern in patterns for path in sorted(glob.glob(pattern, include_hidden=True))
    )


def with_imports(path: str) -> RuntimeFiles:
    """A file of containerd, its imports, and their imports. Like containerd, it reads each file once.

    A file is identified by its real path: through links, it can import itself under ever longer names.
    """
    found: list[Said | UnreadableFile] = []
    waiting = [path] if os.path.lexists(path) else []
    seen: set[str] = set()
    while waiting and len(found) < _MOST:
        path = waiting.pop(0)
        place = os.path.realpath(path)
        if place in seen:
            continue
        seen.add(place)
        read = _read(path)
        found.append(read)
        if isinstance(read, Said):
            waiting += _imported(path, read.document.get("imports"))
    return _sorted_out(found)


def _imported(parent: str, imports: object) -> list[str]:
    """The imported paths. Only an asterisk makes a pattern, which also matches hidden files."""
    paths = []
    for it in imports if isinstance(imports, list) else ():
        if not isinstance(it, str) or "\0" in it:
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(parent), it))
        paths += sorted(glob.glob(path, include_hidden=True)) if "*" in path else [path]
    return paths


def _read(path: str) -> Said | UnreadableFile:
    import tomllib

    try:
        return Said(path, tomllib.loads(read_document(path, limit=_LARGEST).decode()))
    except OSError as error:
        return UnreadableFile(path, error.strerror or str(error))
    except UnicodeDecodeError:
        return UnreadableFile(path, "it is not UTF-8")
    except ValueError as error:  # also of a number that is too long
        return UnreadableFile(path, f"it is not TOML: {error}")
    except RecursionError:
        return UnreadableFile(path, "it is nested too deeply")


def _sorted_out(found: Iterable[Said | UnreadableFile]) -> RuntimeFiles:
    every = list(found)
    return RuntimeFiles(
        tuple(it for it in every if isinstance(it, Said)),
        tuple(it for it in every if isinstance(it, UnreadableFile)),
    )


# The name of the CRI plugin's table in files of each version.
_TABLE = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
# From this version on, files are merged key by key. Before it, the last file with the table has all of it.
_MERGED = 3


class Instance(NamedTuple):
    """A containerd that a machine may have. `program` is set if it also works without a file.

    If `is_generated`, its owner writes the file from a template beside it at each start.
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
    """`cni` in the CRI plugin's table of one file; `is_whole` if it replaces earlier tables."""

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
    """The file that disables the CRI plugin; empty if none does. What any file lists is disabled."""
    for it in said:
        disabled = it.document.get("disabled_plugins")
        if isinstance(disabled, list) and any("cri" in str(uri).split(".") for uri in disabled):
            return it.path
    return ""


def to_change(path: str) -> str:
    """The file to edit in order to change a setting in `path`."""
    if path not in {it.path for it in INSTANCES if it.is_generated}:
        return path
    return (
        f"the template beside {path}, from which it is generated (config-v3.toml.tmpl for containerd 2, "
        "config.toml.tmpl for older ones),"
    )


def _names(own: int, main: int) -> tuple[str, ...]:
    """The table's possible names. An import without a version has its importer's, or in containerd 2 any."""
    if own:
        return (_TABLE[min(own, max(_TABLE))],)
    return tuple(_TABLE.values()) if main >= _MERGED else (_TABLE[main],)


def _version(it: Said) -> int:
    """The file's version; 0 if it has none."""
    version = it.document.get("version")
    return version if isinstance(version, int) and version > 0 else 0
