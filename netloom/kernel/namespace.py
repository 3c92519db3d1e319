"""Network namespaces. A descriptor is the handle; a path is only a way to find one.

To open a socket inside a namespace, the calling thread moves there for a moment; no process is forked. The
thread of an event loop is never moved, since everything else that runs on it would move, too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Self

from .errors import InvalidNamespace, KernelError
from .netlink.connection import GENERIC, NETFILTER, ROUTE, NetlinkConnection

if TYPE_CHECKING:
    import ctypes

    from .nft import Nft

_CLONE_NEWNET = 0x40000000
_NS_GET_NSTYPE = 0xB703
_HERE = "/proc/thread-self/ns/net"


@cache
def _libc() -> ctypes.CDLL:
    """Loads the C library on first use: a user of its own namespace only needs neither of both."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network namespace, with the connections into it that were needed so far.

    Like its connections, it belongs to one thread at a time.
    """

    def __init__(self, fd: int, name: str) -> None:
        """Takes ownership of the descriptor. Use `open`, `own` or `new` instead."""
        self._connections: dict[int, NetlinkConnection] = {}
        self._nft: Nft | None = None
        # What objects found out about the namespace, used until it turns out to be wrong.
        self.findings: dict[tuple[str, ...], object] = {}
        self._fd = fd
        self.name = name
        status = os.fstat(fd)
        self.identity = (status.st_dev, status.st_ino)

    @classmethod
    def open(cls, path: str) -> Self:
        """Opens a namespace by path; refuses anything that is not a network namespace."""
        fd = _opened(path)
        try:
            _require_namespace(fd, path)
            return cls(fd, path)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def of_descriptor(cls, fd: int, name: str) -> Self:
        """Checks and copies a descriptor; the caller keeps its own."""
        try:
            _require_namespace(fd, name)
            return cls(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0), name)
        except OSError as cause:
            raise InvalidNamespace(f"{name}: {cause.strerror}", errno=cause.errno or 0) from None

    @classmethod
    def own(cls) -> Self:
        """Returns the namespace of the calling thread."""
        return cls(_opened(_HERE), "the host's namespace")

    @classmethod
    def new(cls, name: str = "a new namespace") -> Self:
        """Creates a namespace without a name, which exists as long as a process holds it."""
        with _thread_away():
            _require(_libc().unshare(_CLONE_NEWNET), "make a network namespace")
            return cls(_opened(_HERE), name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Namespace {self.name}>"

    def disconnect(self) -> None:
        """Closes its connections, which open again when needed; the namespace stays held."""
        connections = list(getattr(self, "_connections", {}).values())
        if connections:
            self._connections.clear()
        for connection in connections:
            connection.close()
        nft, self._nft = getattr(self, "_nft", None), None
        if nft is not None:
            nft.close()

    def close(self) -> None:
        fd, self._fd = getattr(self, "_fd", -1), -1
        self.disconnect()
        if fd >= 0:
            os.close(fd)

    def fileno(self) -> int:
        if self._fd < 0:
            raise InvalidNamespace(f"{self.name} is closed", errno=errno.EBADF)
        return self._fd

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Runs the block inside. Only the calling thread moves, and it moves back."""
        fd = self.fileno()
        here = os.stat(_HERE)
        if (here.st_dev, here.st_ino) == self.identity:
            yield
            return
        with _thread_away():
            _require(_libc().setns(fd, _CLONE_NEWNET), f"enter {self.name}")
            yield

    def connect(
        self,
        protocol: int = ROUTE,
        groups: tuple[int, ...] = (),
        receive_buffer: int | None = None,
        only: tuple[int, ...] = (),
        ignoring: tuple[int, ...] = (),
    ) -> NetlinkConnection:
        """Returns a new connection into it, which the caller owns."""
        with self.entered():
            return NetlinkConnection.open(protocol, groups, receive_buffer, only, ignoring)

    @property
    def route(self) -> NetlinkConnection:
        """The connection for links, addresses, routes and the like."""
        found = self._connections.get(ROUTE)
        return found if found is not None else self._kept(ROUTE)

    @property
    def cookie(self) -> int:
        """Returns a number that is unique in this boot, while `identity` is reused. 0 if unknown."""
        return self.route.netns_cookie

    @property
    def generic(self) -> NetlinkConnection:
        found = self._connections.get(GENERIC)
        return found if found is not None else self._kept(GENERIC)

    @property
    def netfilter(self) -> NetlinkConnection:
        found = self._connections.get(NETFILTER)
        return found if found is not None else self._kept(NETFILTER)

    @property
    def nft(self) -> Nft:
        found = self._nft
        if found is None:
            from .nft import Nft

            self._nft = found = Nft(self.entered)
        return found

    def _kept(self, protocol: int) -> NetlinkConnection:
        self._connections[protocol] = connection = self.connect(protocol)
        return connection


@contextmanager
def _thread_away() -> Iterator[None]:
    """Lets the thread change namespaces in the block, and moves it back afterwards."""
    _refuse_event_loop()
    home = _opened(_HERE)
    try:
        try:
            yield
        finally:
            # A thread that may not enter a namespace need not move back.
            refused = _libc().setns(home, _CLONE_NEWNET) != 0
            if refused and not os.path.samestat(os.stat(_HERE), os.fstat(home)):
                _require(-1, "come back from a network namespace")
    finally:
        os.close(home)


def _refuse_event_loop() -> None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        raise RuntimeError("an event loop's thread must not change namespaces; use the dataplane or a thread")


def _opened(path: str) -> int:
    try:
        # Non-blocking: a FIFO in the place of a namespace is refused without waiting.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError as cause:
        raise InvalidNamespace(f"{path!r} is not a path: {cause}", errno=errno.EINVAL) from None
    except OSError as cause:
        reason = "it is a dangling symbolic link" if _dangles(path, cause) else cause.strerror
        raise InvalidNamespace(
            f"cannot open network namespace {path}: {reason}", errno=cause.errno or 0
        ) from None


def _dangles(path: str, cause: OSError) -> bool:
    return cause.errno == errno.ENOENT and os.path.islink(path)


_OTHERS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_KINDS = {
    0x02000000: "a cgroup", 0x04000000: "a UTS", 0x08000000: "an IPC", 0x10000000: "a user",
    0x20000000: "a PID", 0x00020000: "a mount", 0x00000080: "a time",
}  # fmt: skip


def _require_namespace(fd: int, path: str) -> None:
    mode = os.fstat(fd).st_mode
    for is_other, what in _OTHERS:
        if is_other(mode):
            raise InvalidNamespace(f"{path} is {what}, not a network namespace", errno=errno.EINVAL)
    try:
        kind = fcntl.ioctl(fd, _NS_GET_NSTYPE)
    except OSError:
        raise InvalidNamespace(
            f"{path} is a regular file, not a network namespace (was it unmounted?)", errno=errno.EINVAL
        ) from None
    if kind != _CLONE_NEWNET:
        what = _KINDS.get(kind, "another")
        raise InvalidNamespace(f"{path} is {what} namespace, not a network namespace", errno=errno.EINVAL)


def _require(result: int, what: str) -> None:
    if result == 0:
        return
    import ctypes

    number = ctypes.get_errno()
    hint = "; run this as root" if number == errno.EPERM else ""
    raise KernelError(f"cannot {what}: {os.strerror(number)}{hint}", errno=number)
