"""Builds `static_plugin.c`."""

from __future__ import annotations

import subprocess
from pathlib import Path

NAME = "static_plugin"
_SOURCE = Path(__file__).with_name("static_plugin.c")
_COMPILE = ("gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror")


def built(build: Path) -> Path:
    """Returns the plugin in its own directory below `build`, compiled if it is missing or outdated."""
    plugin = build / "bench-plugins" / NAME
    if not plugin.exists() or plugin.stat().st_mtime < _SOURCE.stat().st_mtime:
        plugin.parent.mkdir(parents=True, exist_ok=True)
        fresh = plugin.with_suffix(".new")
        subprocess.run([*_COMPILE, "-o", str(fresh), str(_SOURCE)], check=True)
        fresh.replace(plugin)
    return plugin
