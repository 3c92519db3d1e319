"""Container runtimes of this machine: where each looks for networks and plugins, as its own files say."""

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
# Podman writes down which of its two ways it has taken when it was first used.
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
    note: Annotated[str, Meta(description="what else keeps it from netloom; empty if nothing does")]
    remedy: Annotated[str, Meta(description="what to do about that; empty if nothing is to be done")] = ""
    chosen: Annotated[str, Meta(description="the only network that it uses; empty: the first it finds")] = ""
    plugin_path: Annotated[str, Meta(description="the file that names `pluginDirs`; empty: none does")] = ""
    plugin_dirs: Annotated[
        tuple[str, ...], Meta(description="its directories of plugins; empty: the default")
    ] = ()
    unreadable: Annotated[
        tuple[UnreadableFile, ...], Meta(description="files of it of which nobody knows what they say")
    ] = ()


class _Places(NamedTuple):
    """What files have said up to here, and which of them did."""

    path: str = ""
    conf_dir: str = DEFAULT_CONF_DIR
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


def runtimes() -> list[ContainerRuntime]:
    """Those that are installed or configured."""
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
    note = f"its CRI plugin, which uses networks for pods, is switched off in {off}" if off else ""
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
            note, network_name = f"it is told to use the network {chosen!r} in {it.path}", chosen
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
        note = f"it uses {way} and no CNI at all ({said_in})"
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


# Nobody writes more; and what takes minutes to parse, nobody waits for.
_LARGEST = 1 << 20
_MOST = 500


class UnreadableFile(Struct, frozen=True):
    """A file that its runtime would read, and that nobody can."""

    path: Annotated[str, Meta(description="the file")]
    why: Annotated[str, Meta(description="what is wrong with it")]


class Said(Struct, frozen=True):
    """What one file says."""

    path: str
    document: Mapping[str, Any]


class RuntimeFiles(Struct, frozen=True):
    said: tuple[Said, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.said or self.unreadable)


def matching(patterns: Iterable[str]) -> RuntimeFiles:
    """Of a runtime that goes by names."""
    return _sorted_out(
        _read(path) for pattern in patterns for path in sorted(glob.glob(pattern, include_hidden=True))
    )


def with_imports(path: str) -> RuntimeFiles:
    """Of containerd: a file, then what it imports, and then what those do. It, too, reads each once.

    It is known by where it is in the end: by links, a file can import itself under ever longer names.
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
    """Only an asterisk makes a pattern, and that matches hidden files, too."""
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
        return UnreadableFile(path, f"it is no TOML: {error}")
    except RecursionError:
        return UnreadableFile(path, "it is nested too deep")


def _sorted_out(found: Iterable[Said | UnreadableFile]) -> RuntimeFiles:
    every = list(found)
    return RuntimeFiles(
        tuple(it for it in every if isinstance(it, Said)),
        tuple(it for it in every if isinstance(it, UnreadableFile)),
    )


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
