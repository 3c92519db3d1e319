"""Who ran the plugin: the runtime, as the kernel names it."""

from __future__ import annotations

import os


def runtime_of(plugin: int) -> int:
    """The process that runs the plugin, which has to be there: ask before it has its answer. 0: not known,
    because it is gone, or in a PID namespace that cannot be seen from here.
    """
    try:
        # 4711 (a name (of any kind)) S 812 …
        return int(_read(f"/proc/{plugin}/stat").rpartition(b")")[2].split(None, 2)[1]) if plugin > 0 else 0
    except (OSError, ValueError, IndexError):
        return 0


def named(runtime: int) -> str:
    """`containerd[812]`. It outlives its plugins. Nothing, if nothing is known of it."""
    try:
        name = _read(f"/proc/{runtime}/comm").decode("utf-8", "replace").strip() if runtime > 0 else ""
    except OSError:
        return ""
    return f"{name}[{runtime}]" if name else ""


def _read(path: str) -> bytes:
    """Half of what a file object costs, on the way of every answer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 512)
    finally:
        os.close(descriptor)
