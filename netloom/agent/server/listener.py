"""The agent's listening socket, and the file by which clients find it.

The socket may outlive the agent. A service manager lends sockets that it created, and may keep those that the
agent created: both stay in place when the agent exits. Any socket can be passed to a successor, which then
serves the clients that wait at it; they do not notice the change.
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
    """Returns the descriptor limit divided by `part`, at least one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max((_OF_USE if soft == resource.RLIM_INFINITY else min(soft, _OF_USE)) // part, 1)


BACKLOG = 4096
# Process, user and group.
_CREDENTIALS = struct.Struct("3i")


class SocketInUse(Exception):
    """The agent cannot listen at a path: another agent does, or a file is in the way. `errno` may be 0."""

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class Listener:
    """A listening socket.

    `inode` is that of the socket's file at `path`; 0 if there never was one. `device` is compared, too, since
    another file system that is mounted there may have a file of the same inode.
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
        """Creates a socket and puts it at its path in one step, over the file of an agent that was killed.

        Creates missing directories, for root only. With `over`, it also replaces the socket of an agent that
        answers; connected clients stay with that agent.
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
        """Makes the kernel report this process as the one that listens (SO_PEERCRED)."""
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
    """Returns the status of the socket at a path; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISSOCK(found.st_mode) else None


def inode_at(path: str) -> int:
    """Returns the inode of the socket at a path; 0 if there is none."""
    found = file_at(path)
    return 0 if found is None else found.st_ino


def _refusal(path: str, cause: OSError) -> str:
    """Returns the error text. It names the file that is in the way, if that is not the socket's."""
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
    """Returns whether an agent listens at the socket at a path, even if it does not accept clients now.

    A process of another user does not count: the plugin refuses it, so its socket may be replaced.
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
