"""The plugin that runtimes run: whether it is there, can be executed, and is the one of this netloom."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...agent.install import PLUGIN, NotBuilt, read, receipt, shipped_plugin
from ...findings import Finding
from ..place import PLUGIN_DIR
from .ground import Ground

_REINSTALL = "install the plugin that belongs to this netloom at {path}"


def look(ground: Ground) -> Iterator[Finding]:
    if not ground.networks:
        return  # and nobody needs it
    try:
        shipped = shipped_plugin()
    except NotBuilt as error:
        yield Finding(
            code="plugin-not-built",
            severity="warning",
            text=str(error),
            next="install netloom from a wheel, or build the plugin with `make setup` in a checkout",
        )
        return
    for path in places(ground):
        yield from _at(path, shipped)


def places(ground: Ground) -> list[str]:
    """Where `netloom up` has installed it, or where runtimes look by default."""
    installed = [it for it in receipt(ground.args.state_dir).files if os.path.basename(it) == PLUGIN]
    given = ground.args.plugin_dir
    if given is not None:
        return [os.path.join(given, PLUGIN)]
    return installed or [os.path.join(PLUGIN_DIR, PLUGIN)]


def _at(path: str, shipped: bytes) -> Iterator[Finding]:
    directory = os.path.dirname(path)
    fix = _REINSTALL.format(path=path)
    try:
        content = read(path)
    except OSError as cause:
        yield Finding(
            code="plugin-missing",
            subject=path,
            text=f"{path} is no plugin: {cause.strerror}",
            next="move what is in its place away, and run `netloom up`",
        )
        return
    if content is None:
        yield Finding(
            code="plugin-missing",
            subject=path,
            text=f"there is no plugin at {path}: every ADD and DEL of a network of netloom fails",
            next=f"`netloom up --plugin-dir {directory}` installs it",
            fix=fix,
        )
    elif not os.access(path, os.X_OK):
        is_noexec = bool(os.statvfs(directory).f_flag & os.ST_NOEXEC)
        yield Finding(
            code="plugin-not-executable",
            subject=path,
            text=f"{path} cannot be executed: "
            + ("its file system is mounted with noexec" if is_noexec else "its mode does not let it"),
            next="mount it without noexec, or install elsewhere with `netloom up --plugin-dir DIR`"
            if is_noexec
            else f"`netloom up --plugin-dir {directory}` sets it right, or `chmod 755 {path}`",
            fix="" if is_noexec else fix,
        )
    elif content != shipped:
        yield Finding(
            code="plugin-differs",
            subject=path,
            text=f"{path} is not the plugin that belongs to this netloom",
            next=f"`netloom up --plugin-dir {directory}` replaces it, in one step",
            fix=fix,
        )
