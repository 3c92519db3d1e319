"""The network namespace that a plugin is told to work on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import InvalidNetns

_OWN = "/proc/thread-self/ns/net"
_CLONE_NEWNET = 0x40000000


def is_own(path: str) -> bool:
    """Whether a path is the namespace that we are in. A path that leads nowhere is not."""
    try:
        return os.path.samestat(os.stat(path), os.stat(_OWN))
    except (OSError, ValueError):
        return False


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Runs the block inside a namespace and comes back. Only the calling thread moves.

    Not for an event loop's thread: everything else that runs there meanwhile would move, too.
    """
    home = _open(_OWN)
    try:
        target = _open(path)
        try:
            _enter(target, path)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _enter(home, _OWN)
    finally:
        os.close(home)


def _open(path: str) -> int:
    try:
        # Without blocking: a FIFO in the place of a namespace is refused below, not waited for.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else cause
        raise InvalidNetns(f"cannot open network namespace {path}: {reason}") from cause


def _enter(fd: int, path: str) -> None:
    try:
        _setns(fd)
    except OSError as cause:
        raise InvalidNetns(f"cannot enter {path}: not a network namespace ({cause.strerror})") from cause


def _setns(fd: int) -> None:
    if hasattr(os, "setns"):  # from Python 3.12
        os.setns(fd, _CLONE_NEWNET)
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
