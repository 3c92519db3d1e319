"""The lock beside the journal: whose process holds it has the journal, and no other writes to it.

It is a file of its own, since SQLite locks its own in other ways. It stays when the process ends; that it is
held is the kernel's word, and the number in it only names the holder.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from ..cni.files import make_directories, read_document
from .errors import InUse, LockNotAFile, Unwritable
from .kinds import other_than_file

# Without waiting for whoever might write to a FIFO, and without becoming the terminal's process.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def locked(path: str) -> int:
    """Held as long as the process lives, or the descriptor is open. Raises `JournalError`."""
    lock = f"{path}.lock"
    try:
        make_directories(os.path.dirname(path) or ".", 0o700)
    except OSError as cause:
        raise Unwritable(f"cannot write to {os.path.dirname(path)}: {cause.strerror}") from None
    fd = _opened(lock)
    try:
        _require_file(lock, os.fstat(fd).st_mode)
        _hold(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _opened(lock: str) -> int:
    with suppress(OSError):  # it is not there yet, or opening it tells why
        _require_file(lock, os.lstat(lock).st_mode)
    try:
        return os.open(lock, _FLAGS, 0o600)
    except OSError as cause:
        raise Unwritable(f"cannot write {lock}: {cause.strerror}") from None


def _require_file(lock: str, mode: int) -> None:
    what = other_than_file(mode)
    if what is not None:
        raise LockNotAFile(f"{lock} is no file, but {what}: it is not opened")


def _hold(fd: int, path: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        raise InUse(
            f"{path} is in use by another agent{f' (process {holder})' if holder else ''}: "
            "stop that one first (`netloom down`), or give another state directory"
        ) from None
    except OSError as cause:
        raise Unwritable(f"{path}.lock cannot be locked: {cause.strerror}") from None
    with suppress(OSError):  # a full disk need not keep us from holding it
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def holder(path: str) -> int | None:
    """The process that has the journal at a path; None if nobody has, or nobody who can be seen from here.

    It has left its number in the lock's file; that it still holds the lock is the kernel's word.
    """
    try:
        lock = f"{path}.lock"
        process, inode = read_document(lock).decode().strip(), os.stat(lock).st_ino
        with open("/proc/locks") as locks:
            # 1: FLOCK  ADVISORY  WRITE 4711 00:1a:42 0 EOF
            held = {(fields[1], fields[4], fields[5].rpartition(":")[2]) for fields in map(str.split, locks)}
    except (OSError, ValueError, IndexError):
        return None
    return int(process) if ("FLOCK", process, str(inode)) in held else None
