"""Which DELs wait for an agent: the files that the plugin has left. Who only counts them needs no agent."""

from __future__ import annotations

import os
import stat

SUFFIX = ".del"


def waiting(directory: str) -> list[str]:
    """The files, the oldest first; none of a directory that others can write to, as for the plugin."""
    try:
        status = os.stat(directory, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return []
        with os.scandir(directory) as entries:
            found = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if _is_intent(entry)]
    except OSError:
        return []
    return [path for _, path in sorted(found)]


def _is_intent(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name.endswith(SUFFIX)
        and not entry.name.startswith(".")
        and entry.is_file(follow_symlinks=False)
    )
