"""Locks between runtimes that share a cache directory.

The specification forbids parallel operations on one container, and ADD or DEL while GC runs, but leaves both
to the runtime. Here an operation locks its network for reading and its attachment for writing; GC locks the
network for writing. A turnstile before the network's lock lets a waiting GC precede later operations.

All locks are in one empty file, as byte-range locks at offsets that are hashes of names. So nothing
accumulates, and a crash releases everything. They are open-file-description locks: threads and tasks of one
process exclude each other, too. If a runtime is killed, its locks are released at once, even if its plugin
still runs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from .errors import AttachmentBusy, AttachmentKey, DeadlineExceeded, IOFailure
from .files import make_directories
from .io import IO

LOCK_FILE = "netloom.lock"
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02

# Errors of our own process, not of the disk.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Lock:
    """Locks a network, or an attachment on it: `with lock: await lock.acquire()`.

    Without `required`, a full or read-only disk lets the operation continue unlocked: deleting a container
    must always be possible.
    """

    def __init__(
        self,
        io: IO,
        cache_dir: str,
        network: str,
        deadline: float,
        *,
        attachment: AttachmentKey | None = None,
        required: bool = True,
    ) -> None:
        self._io = io
        self._cache_dir = cache_dir
        self._network = network
        self._attachment = attachment
        self._deadline = deadline
        self._required = required
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def acquire(self) -> None:
        try:
            while True:
                await self._io.call(self._open)
                await self._acquire()
                if _is_file(self._fd, self._path):
                    return
                self.release()  # the file was removed: other processes lock a new one
        except OSError as cause:
            self.release()
            if self._required or cause.errno in _EXHAUSTED:
                message = f"cannot write to the cache {self._cache_dir}: {cause.strerror}"
                raise IOFailure(message).at(attachment=self._attachment) from cause

    @property
    def _path(self) -> str:
        return os.path.join(self._cache_dir, LOCK_FILE)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while self._fd < 0:
            make_directories(self._cache_dir, 0o700)
            with suppress(
                FileNotFoundError
            ):  # a process that was `alone` here has just removed the directory
                self._fd = os.open(self._path, flags, 0o600)

    async def _acquire(self) -> None:
        turnstile = _offset("turnstile", self._network)
        network = _offset("network", self._network)
        collecting = self._attachment is None
        await self._wait_for(turnstile, fcntl.F_WRLCK if collecting else fcntl.F_RDLCK)
        await self._wait_for(network, fcntl.F_WRLCK if collecting else fcntl.F_RDLCK)
        _try(self._fd, turnstile, fcntl.F_UNLCK)
        if self._attachment is not None:
            # By the name of the cache entry, which two attachments may share in rare cases.
            await self._wait_for(_offset("entry", self._attachment.entry_name), fcntl.F_WRLCK)

    async def _wait_for(self, offset: int, kind: int) -> None:
        pause = _FIRST_PAUSE
        while not _try(self._fd, offset, kind):
            try:
                # Spread the attempts: among many waiting processes, one should notice a release soon.
                await self._io.sleep(pause * (0.5 + time.monotonic_ns() % 1000 / 1000), self._deadline)
            except DeadlineExceeded:
                what = f"attachment {self._attachment}" if self._attachment else f"network {self._network}"
                message = f"{what} is busy: another operation on it has not ended"
                raise AttachmentBusy(message).at(attachment=self._attachment) from None
            pause = min(pause * 2, _LONGEST_PAUSE)

    def release(self) -> None:
        if self._fd >= 0:
            # Not by closing alone: a fork of this process may have a copy of the descriptor. And
            # before it is given up: an interruption here is made good when the object goes.
            with suppress(OSError):
                _try(self._fd, 0, fcntl.F_UNLCK, length=0)
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        # A signal handler may raise after the lock was taken and before anybody else knows of it.
        self.release()


@contextmanager
def alone(cache_dir: str) -> Iterator[str]:
    """Gives the path of the lock for a block in which no runtime uses this cache. The block may remove the
    file:

    a waiting runtime notices that and makes another. OSError says why the block cannot run: BlockingIOError
    means that a runtime is at work, FileNotFoundError that none has ever been.
    """
    path = os.path.join(cache_dir, LOCK_FILE)
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not _try(fd, 0, fcntl.F_WRLCK, length=0) or not _is_file(fd, path):
            raise BlockingIOError(errno.EWOULDBLOCK, "a runtime is at work there", path)
        yield path
    finally:
        os.close(fd)


def _offset(*names: str) -> int:
    from hashlib import blake2b

    digest = blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1  # an offset has 63 bits


def _is_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _try(fd: int, offset: int, kind: int, *, length: int = 1) -> bool:
    request = struct.pack("@hhqqi", kind, os.SEEK_SET, offset, length, 0)  # struct flock, pid 0
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
