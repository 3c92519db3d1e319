"""The lock beside the journal: the process that holds it owns the journal, and no other process writes to it.

The lock is a separate file, since SQLite locks the journal in other ways. The file stays when the process
ends. The kernel knows whether the lock is held; the number in the file only names the holder.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from ..cni.files import make_directories, read_document
from .errors import InUse, LockNotAFile, Unwritable
from .file_type import other_than_file

# Do not block on a FIFO, and do not acquire a controlling terminal.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def locked(path: str) -> int:
    """Takes the lock, which is held until the descriptor is closed or the process ends. Raises
    `JournalError`.
    """
    lock = f"{path}.lock"
    try:
        make_directories(os.path.dirname(path) or ".", 0o700)
    except OSError as cause:
        raise Unwritable(f"cannot write to {os.path.dirname(path)}: {cause.strerror}") from None
    fd = _opened(lock)
    try:
        _require_file(lock, os.fstat(fd).st_mode)
        _hold(fd, path)
        _require_no_other(fd, path)
        _write_number(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _opened(lock: str) -> int:
    with suppress(OSError):  # it does not exist yet, or opening it reports the error
        _require_file(lock, os.lstat(lock).st_mode)
    try:
        return os.open(lock, _FLAGS, 0o600)
    except OSError as cause:
        raise Unwritable(f"cannot write {lock}: {cause.strerror}") from None


def _require_file(lock: str, mode: int) -> None:
    what = other_than_file(mode)
    if what is not None:
        raise LockNotAFile(f"{lock} is {what}, not a regular file")


def _hold(fd: int, path: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path, os.pread(fd, 32, 0).decode("ascii", "replace").strip()) from None
    except OSError as cause:
        raise Unwritable(f"cannot lock {path}.lock: {cause.strerror}") from None


def _require_no_other(fd: int, path: str) -> None:
    """Refuses if an agent holds a deleted lock file: that agent still owns the journal."""
    with suppress(OSError, ValueError, IndexError):
        inode = os.fstat(fd).st_ino
        other = _holder_of_deleted(f"{path}.lock", {it for it in _held() if it[1] != inode})
        if other is not None:
            raise _in_use(path, str(other))


def _in_use(path: str, process: str) -> InUse:
    return InUse(
        f"{path} is in use by another agent{f' (process {process})' if process else ''}: "
        "stop that agent (`netloom down`), or use another state directory"
    )


def _write_number(fd: int) -> None:
    with suppress(OSError):  # holding the lock does not depend on this write
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def holder(path: str) -> int | None:
    """Returns the process that holds the journal at a path; None if no such process is visible.

    The process wrote its number into the lock's file, and the kernel says whether it still holds the lock. If
    the file was deleted, the process still has it open and holds the lock.
    """
    lock = f"{path}.lock"
    try:
        held = _held()
    except (OSError, ValueError, IndexError):
        return None
    with suppress(OSError, ValueError):
        found = (read_document(lock).decode().strip(), os.stat(lock).st_ino)
        if found in held:
            return int(found[0])
    return _holder_of_deleted(lock, held)


def _held() -> set[tuple[str, int]]:
    """Returns all locks of this kind, each as a process and the inode of its file."""
    with open("/proc/locks") as locks:
        # 1: FLOCK  ADVISORY  WRITE 4711 00:1a:42 0 EOF
        rows = [line.split() for line in locks]
    return {(row[4], int(row[5].rpartition(":")[2])) for row in rows if row[1] == "FLOCK"}


def _holder_of_deleted(lock: str, held: set[tuple[str, int]]) -> int | None:
    name = f"{os.path.realpath(os.path.dirname(lock))}/{os.path.basename(lock)} (deleted)"
    for process, inode in held:
        if any(_is_open(it, name, inode) for it in _descriptors(process)):
            return int(process)
    return None


def _descriptors(process: str) -> list[str]:
    """Returns the descriptors of a process; none if it has ended or belongs to another user."""
    directory = f"/proc/{process}/fd"
    try:
        return [os.path.join(directory, it) for it in os.listdir(directory)]
    except OSError:
        return []


def _is_open(descriptor: str, name: str, inode: int) -> bool:
    try:
        return os.readlink(descriptor) == name and os.stat(descriptor).st_ino == inode
    except OSError:  # closed meanwhile
        return False
