"""Where netloom's plugin is installed, which of these places lack it, and who looks there.

`netloom status` looks whether runtimes can run it; `netloom doctor`, whether it is of the right version.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ...api.findings import Finding
from ...api.paths import DEFAULT_PLUGIN_DIR, default_state_dir
from ..node.install import PLUGIN, is_plugin, read, receipt

if TYPE_CHECKING:
    from .runtimes import ContainerRuntime

CODE = "plugin-missing"
_REINSTALL = "install the plugin that belongs to this netloom at {path}"


def of_installed(state_dir: str) -> Iterator[Finding]:
    """Of places at which `netloom up` has put it, and where it is not any more."""
    places = receipt(state_dir).plugins
    for path in places:
        if not os.path.exists(path):
            yield missing(path, places)
        elif not os.path.isfile(path):
            yield obstructed(path, "something else is in its place")
        elif not _is_ours(path):
            yield differing(path)
        elif not os.access(path, os.X_OK):
            yield not_executable(path)


def _is_ours(path: str) -> bool:
    """Of whatever version."""
    try:
        content = read(path)
    except OSError:
        return False
    return content is not None and is_plugin(content)


def missing(path: str, places: Collection[str]) -> Finding:
    """`places` are all at which it may be."""
    from ...api.text import for_shell

    directory = os.path.dirname(path)
    others = [os.path.dirname(it) for it in sorted(places) if it != path and os.path.isfile(it)]
    who = _who_fails(directory, others) if others else "every ADD and DEL of a network of netloom fails"
    return Finding(
        code=CODE,
        subject=path,
        text=f"there is no plugin at {path}: {who}",
        next=f"`netloom up --plugin-dir {for_shell(directory)}` installs it",
        fix=_REINSTALL.format(path=path),
    )


def obstructed(path: str, why: str) -> Finding:
    return Finding(
        code=CODE,
        subject=path,
        text=f"{path} is no plugin: {why}",
        next="move what is in its place away, and run `netloom up`",
    )


def differing(path: str) -> Finding:
    from ...api.text import for_shell

    return Finding(
        code="plugin-differs",
        subject=path,
        text=f"{path} is not the plugin that belongs to this netloom",
        next=f"`netloom up --plugin-dir {for_shell(os.path.dirname(path))}` replaces it, in one step",
        fix=_REINSTALL.format(path=path),
    )


def not_executable(path: str) -> Finding:
    from ...api.text import for_shell

    directory = os.path.dirname(path)
    is_noexec = bool(os.statvfs(directory).f_flag & os.ST_NOEXEC)
    return Finding(
        code="plugin-not-executable",
        subject=path,
        text=f"{path} cannot be executed: "
        + ("its file system is mounted with noexec" if is_noexec else "its mode does not let it"),
        next="mount it without noexec, or install elsewhere with `netloom up --plugin-dir DIR`"
        if is_noexec
        else f"`netloom up --plugin-dir {for_shell(directory)}` sets it right, or `chmod 755 "
        f"{for_shell(path)}`",
        fix="" if is_noexec else _REINSTALL.format(path=path),
    )


def advice_on_missing() -> str:
    """What to do when a command has not found it in CNI_PATH."""
    from ...api.text import for_shell

    searched = (os.environ.get("CNI_PATH") or DEFAULT_PLUGIN_DIR).split(os.pathsep)
    places = receipt(default_state_dir()).plugins or [os.path.join(DEFAULT_PLUGIN_DIR, PLUGIN)]
    there = [os.path.dirname(it) for it in places if os.path.isfile(it)]
    if there:
        return f"set CNI_PATH to {for_shell(there[0])}, where netloom's plugin is"
    directory = os.path.dirname(places[0])
    elsewhere = "" if directory in searched else f"; then set CNI_PATH to {for_shell(directory)}"
    return f"`netloom up` installs netloom's plugin in {directory}{elsewhere}"


def _who_fails(directory: str, others: Sequence[str]) -> str:
    from .runtimes import runtimes

    found = [it for it in runtimes() if _looks(it, directory)]
    failing = [it for it in found if not any(_looks(it, other) for other in others)]
    works = f"the one in {', '.join(others)} is there"
    if not failing:
        return (
            f"no runtime that is known here looks there alone; for one that does, ADD and DEL fail ({works})"
        )
    names = " and ".join(it.name if it.plugin_dirs else f"{it.name} (by default)" for it in failing)
    verb, whom = ("looks", "it") if len(failing) == 1 else ("look", "them")
    return f"{names} {verb} there, and every ADD and DEL of a network of netloom fails for {whom} ({works})"


def _looks(runtime: ContainerRuntime, directory: str) -> bool:
    """What keeps any other than CRI-O from netloom's networks keeps it from CNI."""
    if not runtime.conf_dir or (runtime.note and runtime.name != "CRI-O"):
        return False
    searched = runtime.plugin_dirs or (DEFAULT_PLUGIN_DIR,)
    return any(os.path.realpath(it) == os.path.realpath(directory) for it in searched)
