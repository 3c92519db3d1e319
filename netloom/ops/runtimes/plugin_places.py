"""Where netloom's plugin is installed, where it is missing, and which runtimes use these directories.

`netloom status` checks whether runtimes can run it; `netloom doctor`, whether its version is right.
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
_REINSTALL = "install the plugin of this netloom version at {path}"


def of_installed(state_dir: str) -> Iterator[Finding]:
    """Findings about the paths at which `netloom up` installed the plugin."""
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
    """Whether a file is netloom's plugin, of any version."""
    try:
        content = read(path)
    except OSError:
        return False
    return content is not None and is_plugin(content)


def missing(path: str, places: Collection[str]) -> Finding:
    """A finding about a missing plugin. `places` are all paths at which it may be."""
    from ...api.text import for_shell

    directory = os.path.dirname(path)
    others = [os.path.dirname(it) for it in sorted(places) if it != path and os.path.isfile(it)]
    who = _who_fails(directory, others) if others else "every ADD and DEL of a netloom network fails"
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
        text=f"{path} is not a plugin: {why}",
        next="move away what is in its place, and run `netloom up`",
    )


def differing(path: str) -> Finding:
    from ...api.text import for_shell

    return Finding(
        code="plugin-differs",
        subject=path,
        text=f"{path} is not the plugin of this netloom version",
        next=f"`netloom up --plugin-dir {for_shell(os.path.dirname(path))}` replaces it",
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
        + ("its file system is mounted with noexec" if is_noexec else "its mode forbids it"),
        next="mount it without noexec, or install elsewhere with `netloom up --plugin-dir DIR`"
        if is_noexec
        else f"`netloom up --plugin-dir {for_shell(directory)}` or `chmod 755 {for_shell(path)}` fixes it",
        fix="" if is_noexec else _REINSTALL.format(path=path),
    )


def advice_on_missing() -> str:
    """Advice for a command that did not find the plugin in CNI_PATH."""
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

    found = [it for it in runtimes() if _uses(it, directory)]
    failing = [it for it in found if not any(_uses(it, other) for other in others)]
    works = f"the plugin in {', '.join(others)} exists"
    if not failing:
        return f"no known runtime uses only this directory; if one does, its ADD and DEL fail ({works})"
    names = " and ".join(it.name if it.plugin_dirs else f"{it.name} (by default)" for it in failing)
    verb, whom = ("uses", "it") if len(failing) == 1 else ("use", "them")
    return (
        f"{names} {verb} this directory, so every ADD and DEL of a netloom network fails for {whom} ({works})"
    )


def _uses(runtime: ContainerRuntime, directory: str) -> bool:
    """Whether a runtime uses plugins in a directory. Any with a note but CRI-O uses no CNI plugins at all."""
    if not runtime.conf_dir or (runtime.note and runtime.name != "CRI-O"):
        return False
    searched = runtime.plugin_dirs or (DEFAULT_PLUGIN_DIR,)
    return any(os.path.realpath(it) == os.path.realpath(directory) for it in searched)
