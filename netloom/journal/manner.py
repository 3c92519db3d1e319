"""How SQLite is told to read a file, so that it makes nothing beside it where it must not, or cannot.

Of a file that has a log by its nature, as one that was moved away under an agent has, it makes a log and an
index in shared memory, if only to read it, and whoever reads only may not remove them.
"""

from __future__ import annotations

import os

_BESIDE = "mode=ro"
# Nobody changes it: without locks, and without a log.
_STILL = "mode=ro&immutable=1"
# Nobody else has it open. With an exclusive lock, which here is none, the log's index is in our own memory.
ALONE = "mode=ro&vfs=unix-none"

# Of SQLite's header: the file's version for who reads it. 2: it has a log.
_VERSION, _WITH_LOG = 19, 2


def of(path: str, *, is_copy: bool) -> str:
    has_log, has_index = (os.path.exists(path + ending) for ending in ("-wal", "-shm"))
    if not has_log:
        return _STILL if _is_read_only(path) or (is_copy and _wants_log(path)) else _BESIDE
    # Whoever has it open has an index beside it.
    return ALONE if is_copy and not has_index else _BESIDE


def _is_read_only(path: str) -> bool:
    """A disk on which SQLite cannot make what it needs."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _wants_log(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            header = file.read(_VERSION + 1)
    except OSError:
        return False
    return header[_VERSION:] == bytes([_WITH_LOG])
