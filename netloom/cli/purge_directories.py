"""Directories that `netloom up` has made for its files, such as /opt/cni/bin.

They belong to whoever uses them by now. One goes only if nothing is in it and nobody watches it: containerd
before 2.0 watches /etc/cni/net.d and ends when that is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from .doctor.processes import name
from .output import printable_line


def remove_unused(directories: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Those that went, the deepest first; and those that stay since somebody watches them, and who."""
    removed: list[str] = []
    watched: list[tuple[str, str]] = []
    for path in sorted(directories, key=len, reverse=True):
        try:
            if os.path.islink(path) or os.listdir(path):
                continue
            who = next(_watchers(path), None)
            if who is None:
                os.rmdir(path)
                removed.append(path)
            else:
                watched.append((path, who))
        except OSError:  # it is gone, somebody uses it since, or something is mounted there
            continue
    return removed, watched


def _watchers(path: str) -> Iterator[str]:
    """Processes with an inotify watch on a directory, as far as they can be seen from here."""
    status = os.stat(path)
    device = os.major(status.st_dev) << 20 | os.minor(status.st_dev)  # as the kernel has it
    mark = f" ino:{status.st_ino:x} sdev:{device:x} ".encode()
    for process in filter(str.isdecimal, os.listdir("/proc")):
        if any(mark in info for info in _watches(process)):
            yield f"{printable_line(name(int(process))) or 'a process'} (process {process})"


def _watches(process: str) -> Iterator[bytes]:
    """What a process watches: `inotify wd:1 ino:5e2 sdev:800013 mask:...`, a line for each."""
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:  # it has ended
        return
    for descriptor in descriptors:
        try:
            if os.readlink(f"/proc/{process}/fd/{descriptor}") == "anon_inode:inotify":
                with open(f"/proc/{process}/fdinfo/{descriptor}", "rb") as info:
                    yield info.read()
        except OSError:
            continue
