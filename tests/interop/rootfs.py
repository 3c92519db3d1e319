"""The root file system of containers: busybox."""

from __future__ import annotations

import shutil
from pathlib import Path

_APPLETS = ("cat", "ip", "nc", "ping", "sh", "sleep")


def busybox_root(directory: Path) -> Path:
    """A root file system with busybox and nothing else; several containers may share it."""
    binaries = directory / "bin"
    binaries.mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None, "`make setup` installs busybox-static"
    shutil.copy(busybox, binaries)
    for applet in _APPLETS:
        (binaries / applet).symlink_to("busybox")
    for name in ("dev", "etc", "proc", "run", "sys", "tmp"):
        (directory / name).mkdir()
    return directory
