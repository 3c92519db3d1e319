"""Where the agent listens: a socket, and the file by which clients find it.

The socket may outlive the agent. One that a service manager made is lent, and one that we made may be kept by
it: both stay at their place when we end. Any can be handed to the agent that follows. Whoever waits at it is
then served by that one, and never learns that there was a change.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Self

BACKLOG = 4096


class SocketInUse(Exception):
    """Another agent answers there, or something that is no socket is in its place."""


class Listener:
    """`inode` is that of the file at `path` while it leads to this socket; 0 if it never did."""

    def __init__(
        self, path: str, listening: socket.socket, inode: int, *, lent: bool = False, kept: bool = False
    ) -> None:
        listening.setblocking(False)
        self.path = path
        self.socket = listening
        self.inode = inode
        self.is_lent = lent
        self.is_kept = kept

    @classmethod
    def made(cls, path: str, *, over: bool = False) -> Self:
        """Appears at its place in one step, over what an agent that was killed has left there.

        `over` also takes the place of one that answers: who has connected to that one stays with it.
        """
        _require_socket(path)
        if not over:
            _require_nobody(path)
        spare = f"{path}.{os.getpid()}"
        kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        listening = socket.socket(socket.AF_UNIX, kind)
        try:
            with suppress(FileNotFoundError):
                os.unlink(spare)
            before = os.umask(0o177)
            try:
                listening.bind(spare)
            finally:
                os.umask(before)
            listening.listen(BACKLOG)
            inode = os.stat(spare, follow_symlinks=False).st_ino
            os.rename(spare, path)
        except OSError as cause:
            listening.close()
            with suppress(OSError):
                os.unlink(spare)
            raise SocketInUse(f"cannot listen at {path}: {cause.strerror or cause}") from None
        return cls(path, listening, inode)

    def fileno(self) -> int:
        return self.socket.fileno()

    def take(self) -> None:
        """From now on, the kernel names us to those who ask who listens."""
        self.socket.listen(BACKLOG)

    def is_in_place(self) -> bool:
        return self.inode != 0 and inode_at(self.path) == self.inode

    def close(self, *, unlink: bool = True) -> None:
        if unlink and not (self.is_lent or self.is_kept) and self.is_in_place():
            with suppress(OSError):
                os.unlink(self.path)
        self.socket.close()


def inode_at(path: str) -> int:
    """Of the socket at a path; 0 if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return 0
    return found.st_ino if stat.S_ISSOCK(found.st_mode) else 0


def _require_socket(path: str) -> None:
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketInUse(f"{path} is there and is no socket; it was left alone: move it away")


def has_listener(path: str) -> bool:
    """Whether somebody listens at the socket that a path leads to, accepting or not."""
    if not inode_at(path):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:
            pass
    return True


def _require_nobody(path: str) -> None:
    if has_listener(path):
        raise SocketInUse(f"another agent answers at {path}: stop that one first (`netloom down`)")
