"""Who ran the plugin: the runtime, as the kernel names it."""

from __future__ import annotations

import os

# Of a process that is gone, or in a PID namespace that cannot be seen from here.
_NOBODY = ""


def caller_of(plugin: int) -> str:
    """By the process of the plugin that waits for its answer. `containerd[812]`."""
    if plugin <= 0:
        return _NOBODY
    try:
        # 4711 (a name (of any kind)) S 812 …
        parent = int(_read(f"/proc/{plugin}/stat").rpartition(b")")[2].split(None, 2)[1])
        name = _read(f"/proc/{parent}/comm").decode("utf-8", "replace").strip()
    except (OSError, ValueError, IndexError):
        return _NOBODY
    return f"{name}[{parent}]"


def _read(path: str) -> bytes:
    """Half of what a file object costs, on the way of every answer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 512)
    finally:
        os.close(descriptor)
