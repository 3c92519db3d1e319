"""Whether container runtimes look where netloom's networks and its plugin are, as their own files have it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from ...api.findings import Finding
from ...kernel import Namespace
from ..containerd_files import to_change
from ..runtimes import Runtime, runtimes
from . import plugin
from .ground import Ground


def look(ground: Ground) -> Iterator[Finding]:
    if not ground.networks:
        return
    conf_dir = ground.args.conf_dir
    names = [it.name for it in ground.networks]
    plugin_dirs = [os.path.dirname(path) for path in plugin.places(ground)]
    for it in runtimes():
        yield from _unreadable(it)
        if it.note and it.chosen not in names:
            if it.chosen:
                yield elsewhere(
                    it.name,
                    f"CRI-O does not use a network of netloom: {it.note}",
                    f"set `cni_default_network` to {names[0]!r}, or remove it, and restart CRI-O",
                )
            continue  # it does not use CNI, or not here
        if it.path and not _same(it.conf_dir, conf_dir):
            yield elsewhere(
                it.name,
                f"{it.name} looks for networks in {it.conf_dir}, and netloom's are in {conf_dir} ({it.path})",
                f"`netloom up --conf-dir {it.conf_dir}` writes one there, or change {to_change(it.path)} and "
                "restart it",
            )
        known = it.plugin_dirs and plugin_dirs
        if known and not any(_same(one, other) for one in it.plugin_dirs for other in plugin_dirs):
            yield elsewhere(
                it.name,
                f"{it.name} looks for plugins in {', '.join(it.plugin_dirs)}, and netloom's is in "
                f"{', '.join(plugin_dirs)} ({it.plugin_path})",
                f"`netloom up --plugin-dir {it.plugin_dirs[0]}` installs it there, or change "
                f"{to_change(it.plugin_path)} and restart it",
            )


def of_runtimes(args: argparse.Namespace) -> list[Finding]:
    """For whoever looks for no more than that: by all places at which the plugin is installed."""
    everywhere = argparse.Namespace(**{**vars(args), "plugin_dir": None})
    with Namespace.own() as host:
        return list(look(Ground(everywhere, host)))


def all_plugin_dirs() -> list[str]:
    """Wherever a runtime of this machine was told to look for plugins."""
    return [directory for it in runtimes() for directory in it.plugin_dirs]


def _unreadable(runtime: Runtime) -> Iterator[Finding]:
    for it in runtime.unreadable:
        yield Finding(
            code="runtime-unreadable",
            severity="warning",
            subject=it.path,
            text=f"{it.path}, a file of {runtime.name}, cannot be read: {it.why}; what it says of networks "
            "and plugins is not known",
            next=f"mend it, or move it away; {runtime.name} may not start with it",
        )


def elsewhere(runtime: str, text: str, advice: str) -> Finding:
    return Finding(code="runtime-elsewhere", severity="warning", subject=runtime, text=text, next=advice)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
