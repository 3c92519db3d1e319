"""Where the agent listens: a socket, and the file by which clients find it.

The socket may outlive the agent. One that a service manager made is lent, and one that we made may be kept by
it: both stay at their place when we end. Any can be handed to the agent that follows. Whoever waits at it is
then served by that one, and never learns that there was a change.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import struct
from contextlib import suppress
from typing import Self

from ...api.paths import is_trusted_user
from ...cni.files import make_directories

_OF_USE = 1024


def share(part: int) -> int:
    """One of so many parts of them; at least one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max((_OF_USE if soft == resource.RLIM_INFINITY else min(soft, _OF_USE)) // part, 1)


BACKLOG = 4096
# Process, user and group.
_CREDENTIALS = struct.Struct("3i")


class SocketInUse(Exception):
    """Another agent answers there, or something is in the way. `errno` is the kernel's, if it said so."""

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class Listener:
    """`inode` is that of the file at `path` while it leads to this socket; 0 if it never did.

    Another file system that is mounted there may have a file of the same inode: `device` tells them apart.
    """

    def __init__(
        self, path: str, listening: socket.socket, inode: int, *, lent: bool = False, kept: bool = False
    ) -> None:
        listening.setblocking(False)
        self.path = path
        self.socket = listening
        self.inode = inode
        found = file_at(path)
        self.device = found.st_dev if found is not None and inode == found.st_ino else 0
        self.is_lent = lent
        self.is_kept = kept

    @classmethod
    def made(cls, path: str, *, over: bool = False) -> Self:
        """Appears at its place in one step, over what an agent that was killed has left there.

        Directories that are missing are made, for root alone. `over` also takes the place of one that
        answers: who has connected to that one stays with it.
        """
        _require_socket(path)
        if not over:
            _require_nobody(path)
        spare = f"{path}.{os.getpid()}"
        kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        listening = socket.socket(socket.AF_UNIX, kind)
        try:
            make_directories(os.path.dirname(path), 0o700)
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
            raise SocketInUse(_refusal(path, cause), cause.errno or 0) from None
        return cls(path, listening, inode)

    def fileno(self) -> int:
        return self.socket.fileno()

    def take(self) -> None:
        """From now on, the kernel names us to those who ask who listens."""
        self.socket.listen(BACKLOG)

    def is_in_place(self) -> bool:
        found = file_at(self.path)
        return (
            found is not None
            and self.inode == found.st_ino
            and (self.device == found.st_dev or not self.device)
        )

    def close(self, *, unlink: bool = True) -> None:
        if unlink and not (self.is_lent or self.is_kept) and self.is_in_place():
            with suppress(OSError):
                os.unlink(self.path)
        self.socket.close()


def file_at(path: str) -> os.stat_result | None:
    """Of the socket at a path; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISSOCK(found.st_mode) else None


def inode_at(path: str) -> int:
    """Of the socket at a path; 0 if there is none."""
    found = file_at(path)
    return 0 if found is None else found.st_ino


def _refusal(path: str, cause: OSError) -> str:
    """Names the file that is in the way, if it is another one than the socket's."""
    at = cause.filename if isinstance(cause.filename, str) and not cause.filename.startswith(path) else ""
    why = f"{at}: {cause.strerror}" if at else str(cause.strerror or cause)
    return f"cannot listen at {path}: {why}"


def _require_socket(path: str) -> None:
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketInUse(f"{path} exists but is not a socket: move it away")


def has_listener(path: str) -> bool:
    """Whether an agent listens at the socket that a path leads to, accepting or not.

    A process of another user is no agent. The plugin refuses it, so its place may be taken.
    """
    found = file_at(path)
    if found is None or not is_trusted_user(found.st_uid):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:  # its queue is full
            return True
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return is_trusted_user(_CREDENTIALS.unpack(credentials)[1])


def _require_nobody(path: str) -> None:
    if has_listener(path):
        raise SocketInUse(f"another agent answers at {path}: stop it first (`netloom down`)")
