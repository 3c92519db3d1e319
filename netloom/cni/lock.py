"""Locks between runtimes that share a cache directory.

The specification forbids parallel operations on one container, and ADD or DEL while GC runs,
but leaves both to the runtime. Here an operation holds its network for reading and its
attachment for writing; GC holds the network for writing.

All locks live in one empty file, as byte-range locks at offsets that are hashes of names. So
nothing accumulates, a crash releases everything, and no lock outlives its process. They are
open-file-description locks: threads and tasks of one process exclude each other, too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from types import TracebackType

from .errors import AttachmentBusy, AttachmentKey, DeadlineExceeded, IOFailure
from .files import make_directories
from .io import IO

LOCK_FILE = "netloom.lock"
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


class Lock:
    """Holds some offsets of the lock file; an async context manager over `IO`."""

    def __init__(
        self,
        io: IO,
        cache_dir: str,
        ranges: list[tuple[int, bool]],
        what: str,
        deadline: float,
        attachment: AttachmentKey | None = None,
        required: bool = False,
    ) -> None:
        self._io = io
        self._cache_dir = cache_dir
        self._ranges = ranges
        self._what = what
        self._deadline = deadline
        self._attachment = attachment
        self._required = required
        self._fd = -1

    async def __aenter__(self) -> None:
        try:
            self._fd = await self._io.call(_open, self._cache_dir)
        except OSError as cause:
            # A disk that is full or read-only must not keep a container from being deleted.
            if not self._required:
                return
            message = f"cannot write to the cache {self._cache_dir}: {cause.strerror}"
            raise IOFailure(message).at(attachment=self._attachment) from cause
        try:
            for offset, exclusive in self._ranges:
                await self._acquire(offset, exclusive)
        except BaseException:
            self._release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    async def _acquire(self, offset: int, exclusive: bool) -> None:
        pause = _FIRST_PAUSE
        while not _try(self._fd, offset, exclusive):
            try:
                await self._io.sleep(pause, self._deadline)
            except DeadlineExceeded:
                message = f"{self._what} is busy: another operation on it has not ended"
                raise AttachmentBusy(message).at(attachment=self._attachment) from None
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def attachment_lock(io: IO, cache_dir: str, key: AttachmentKey, deadline: float, *, required: bool) -> Lock:
    """`required`: a lock file that cannot be opened is an error, not a reason to go on without."""
    # By the name of the cache entry, which in rare cases two attachments have in common.
    ranges = [(_offset("network", key.network), False), (_offset("entry", "-".join(key)), True)]
    return Lock(io, cache_dir, ranges, f"attachment {key}", deadline, key, required)


def network_lock(io: IO, cache_dir: str, network: str, deadline: float) -> Lock:
    return Lock(io, cache_dir, [(_offset("network", network), True)], f"network {network}", deadline)


def _offset(*names: str) -> int:
    from hashlib import blake2b

    digest = blake2b("\0".join(names).encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1  # an offset has 63 bits


def _open(cache_dir: str) -> int:
    make_directories(cache_dir, 0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(os.path.join(cache_dir, LOCK_FILE), flags, 0o600)


def _try(fd: int, offset: int, exclusive: bool) -> bool:
    kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
    request = struct.pack("@hhqqi", kind, os.SEEK_SET, offset, 1, 0)  # struct flock, pid 0
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
