"""Safe access to files that other programs write: bounded reads, atomic durable writes."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from .wire import DOCUMENT_MAX


def read_document(path: str, *, limit: int = DOCUMENT_MAX) -> bytes:
    """Reads a regular file of at most `limit` bytes. OSError says what is wrong.

    The file is opened without blocking, so that a FIFO in its place is refused without waiting.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", path)
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"File is larger than {limit >> 20} MiB", path)
        chunks = []
        left = limit
        while left and (chunk := os.read(fd, min(left, 1 << 20))):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


class Replacement:
    """A file's new content: space is reserved first, and it appears whole and durable or not at all.

    The content is written to an unnamed inode, so that a crash leaves nothing behind. A link gives it a name,
    or, over an older file, a rename. Both happen after fsync.
    """

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name
        self._spare = spare_name(name)
        self._named = False
        self._directory = -1
        self._fd = -1

    def reserve(self, size: int) -> None:
        """Opens a file for the new content and reserves disk space for it."""
        self._directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._fd = self._open()
        os.posix_fallocate(self._fd, 0, size)

    def _open(self) -> int:
        with suppress(OSError):  # not every file system has unnamed files
            fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=self._directory)
            if os.path.exists(f"/proc/self/fd/{fd}"):
                return fd
            os.close(fd)  # without /proc it could not get a name
        self._unlink_spare()
        self._named = True
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        return os.open(self._spare, flags, 0o600, dir_fd=self._directory)

    def commit(self, content: bytes) -> None:
        view = memoryview(content)
        offset = 0
        while offset < len(view):
            offset += os.pwrite(self._fd, view[offset:], offset)
        os.ftruncate(self._fd, len(content))
        os.fsync(self._fd)
        if self._named or not self._link(self._name):
            if not self._named:
                self._unlink_spare()
                self._link(self._spare)
                self._named = True
            os.rename(self._spare, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            self._named = False
        os.fsync(self._directory)

    def _link(self, name: str) -> bool:
        try:
            os.link(
                f"/proc/self/fd/{self._fd}",
                name,
                src_dir_fd=self._directory,
                dst_dir_fd=self._directory,
                follow_symlinks=True,
            )
        except FileExistsError:
            return False
        return True

    def _unlink_spare(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._spare, dir_fd=self._directory)

    def close(self) -> None:
        if self._named and self._fd >= 0:
            with suppress(OSError):
                self._unlink_spare()
        open_fds = (self._fd, self._directory)
        self._fd = self._directory = -1
        for fd in open_fds:
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        self.close()


def spare_name(name: str) -> str:
    """Returns the name of the file that replaces another. The caller holds a lock; a stale file is reused."""
    return f".{name}"


def is_same_path(one: str, other: str) -> bool:
    """Says whether two paths lead to the same file or directory, or would if it existed."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def make_directories(path: str, mode: int) -> None:
    """Creates `path` and its missing parents, and makes each durable in its parent."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_directories(parent, mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if os.path.isdir(path):
            return
        if os.path.islink(path):
            raise FileNotFoundError(errno.ENOENT, "It is a dangling symbolic link", path) from None
        if not os.path.lexists(path):  # it has just been removed
            make_directories(path, mode)
            return
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path) from None
    sync_directory(parent or ".")


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
