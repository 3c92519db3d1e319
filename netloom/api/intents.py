"""DELs that wait for an agent: the files that the plugin has left, and the request in each."""

from __future__ import annotations

import errno
import os
import stat

from ..cni.files import read_document
from .protocol import REQUEST_MAX, Message, ProtocolError, decode

SUFFIX = ".del"

# Too large, a directory, a FIFO: no plugin has written that.
_NO_REQUEST = (errno.EFBIG, errno.EISDIR, errno.EINVAL)


def read_intent(path: str) -> Message:
    """Raises `ProtocolError` for what is no request, and OSError for what cannot be read now."""
    try:
        return decode(read_document(path, limit=REQUEST_MAX))
    except OSError as cause:
        if cause.errno in _NO_REQUEST:
            raise ProtocolError(f"{cause.strerror}: {path}") from None
        raise


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
