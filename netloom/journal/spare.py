"""A file that is written beside another, and takes its place when it is whole and on disk.

Its name is always the same, so that what somebody who was killed has left is found again and used again. A
lock tells that from one which somebody is writing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..cni.files import sync_directory

# What SQLite may leave beside it.
_BESIDE = ("-journal", "-wal", "-shm")
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def name_of_spare(path: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.netloom-new")


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """The spare's path, empty at first. Whatever was raised, it is gone, and `path` is as it was."""
    spare = name_of_spare(path)
    fd = _held(spare)
    try:
        for it in _BESIDE:
            with suppress(FileNotFoundError):
                os.unlink(spare + it)
        os.ftruncate(fd, 0)
        yield spare
        os.fsync(fd)
        os.rename(spare, path)
    except BaseException:
        for it in ("", *_BESIDE):
            with suppress(OSError):
                os.unlink(spare + it)
        raise
    finally:
        os.close(fd)
    sync_directory(os.path.dirname(path) or ".")


def _held(spare: str) -> int:
    """Ours alone, and still the one at its path: whoever had it before may just have given it its name."""
    while True:
        fd = os.open(spare, _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.lstat(spare)):
                    return fd
        except BlockingIOError:
            os.close(fd)
            raise OSError(errno.EBUSY, "somebody else is writing it at this moment", spare) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
