"""Whether container runtimes look where netloom's networks and its plugin are, as their own files have it."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import Any

from ...findings import Finding
from ..runtimes import Runtime, runtimes
from . import plugin
from .ground import Ground

_CONTAINERD = "/etc/containerd/config.toml"
_CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*.conf")
_PODMAN = ("/etc/containers/containers.conf", "/etc/containers/containers.conf.d/*.conf")


def look(ground: Ground) -> Iterator[Finding]:
    if not ground.networks:
        return
    conf_dir = ground.args.conf_dir
    names = [it.name for it in ground.networks]
    plugin_dirs = [os.path.dirname(path) for path in plugin.places(ground)]
    for it in runtimes():
        if it.name == "CRI-O" and it.note and not any(repr(name) in it.note for name in names):
            yield _elsewhere(
                it,
                f"CRI-O does not use a network of netloom: {it.note}",
                f"set `cni_default_network` to {names[0]!r}, or remove it, and restart CRI-O",
            )
        if not it.conf_dir or it.note:
            continue  # it does not use CNI, or not here
        if it.path and not _same(it.conf_dir, conf_dir):
            yield _elsewhere(
                it,
                f"{it.name} looks for networks in {it.conf_dir}, and netloom's are in {conf_dir} ({it.path})",
                f"`netloom up --conf-dir {it.conf_dir}` writes one there, or change {it.path} and restart it",
            )
        path, dirs = _plugin_dirs(it.name)
        if dirs and not any(_same(one, other) for one in dirs for other in plugin_dirs):
            yield _elsewhere(
                it,
                f"{it.name} looks for plugins in {', '.join(dirs)}, and netloom's is in "
                f"{', '.join(plugin_dirs)} ({path})",
                f"`netloom up --plugin-dir {dirs[0]}` installs it there, or change {path} and restart it",
            )


def _elsewhere(runtime: Runtime, text: str, advice: str) -> Finding:
    return Finding(code="runtime-elsewhere", severity="warning", subject=runtime.name, text=text, next=advice)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _plugin_dirs(name: str) -> tuple[str, list[str]]:
    """What the runtime's files say, and which of them; nothing if they leave it at the default."""
    found: tuple[str, list[str]] = ("", [])
    if name == "containerd":
        for path, document in _read((_CONTAINERD,)):
            for settings in _values(document.get("plugins")):
                cni = settings.get("cni") if isinstance(settings, dict) else None
                found = _said(path, cni, ("bin_dirs", "bin_dir"), found)
    elif name == "CRI-O":
        for path, document in _read(_CRIO):
            network = _table(_table(document, "crio"), "network")
            found = _said(path, network, ("plugin_dirs",), found)
    elif name == "podman":
        for path, document in _read(_PODMAN):
            found = _said(path, _table(document, "network"), ("cni_plugin_dirs",), found)
    return found


def _said(
    path: str, settings: object, keys: tuple[str, ...], before: tuple[str, list[str]]
) -> tuple[str, list[str]]:
    for key in keys:
        value = settings.get(key) if isinstance(settings, dict) else None
        dirs = [value] if isinstance(value, str) and value else value
        if isinstance(dirs, list) and dirs:
            return path, [str(it) for it in dirs]
    return before


def _table(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _values(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else []


def _read(patterns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    import tomllib

    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            try:
                with open(path, "rb") as file:
                    yield path, tomllib.load(file)
            except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
                continue
