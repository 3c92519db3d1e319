"""Temporary network namespaces, and work inside one: only a thread of its own ever enters a namespace.

A run locks each namespace that it makes, before the namespace has a name. The kernel releases the lock when
the process ends, however it ends: a namespace with our prefix and without a lock was leaked by a killed run.
A namespace that `--keep` keeps has another prefix.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from ...kernel import InvalidNamespace, KernelError, Namespace
from ...waiting import lock_exclusively

T = TypeVar("T")

# The work waits only for the kernel.
_THREAD_PATIENCE = 10.0


def in_thread(work: Callable[[], T]) -> T:
    """Runs work that moves its thread to another namespace."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_THREAD_PATIENCE)
    if failed:
        raise failed[0]
    if not done:
        raise KernelError(f"the kernel did not answer within {_THREAD_PATIENCE:g} s", errno=errno.ETIMEDOUT)
    return done[0]


def run_inside(namespace: Namespace, work: Callable[[], T]) -> T:
    def inside() -> T:
        with namespace.entered():
            return work()

    return in_thread(inside)


def socket_in(namespace: Namespace, family: int, kind: int, protocol: int = 0) -> socket.socket:
    return run_inside(namespace, lambda: socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol))


DIRECTORY = "/run/netns"
PREFIX = "netloom-connectivity-"
KEPT_PREFIX = "netloom-kept-"

_MS_BIND, _MS_REC, _MS_SHARED = 4096, 16384, 1 << 20
_MNT_DETACH = 2
_LOCK_PATIENCE = 5.0
_LOOK_EVERY = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def path_of(name: str) -> str:
    return os.path.join(DIRECTORY, name)


def make(name: str) -> Namespace:
    """Creates a namespace that `ip netns` lists by that name."""
    made = in_thread(lambda: Namespace.new(path_of(name)))
    try:
        fcntl.flock(made.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        with _undisturbed():
            os.close(os.open(path_of(name), os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
            _mount(f"/proc/self/fd/{made.fileno()}", path_of(name), _MS_BIND)
    except BaseException:
        made.close()
        raise
    return made


def remove(name: str) -> None:
    """Removes the name, if it exists; the kernel deletes the namespace when nothing uses it any more."""
    path = path_of(name)
    _libc.umount2(os.fsencode(path), _MNT_DETACH)
    with suppress(FileNotFoundError):
        os.unlink(path)


def leaked() -> Iterator[str]:
    """The names of namespaces that killed runs leaked."""
    try:
        names = sorted(name for name in os.listdir(DIRECTORY) if name.startswith(PREFIX))
    except FileNotFoundError:
        return
    for name in names:
        if _is_leaked(path_of(name)):
            yield name


def _is_leaked(path: str) -> bool:
    try:
        with Namespace.open(path) as found:
            fcntl.flock(found.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except InvalidNamespace:
        return _is_empty_for_good(path)
    return True


def _is_empty_for_good(path: str) -> bool:
    """Whether nothing is mounted on a file, and no process is just about to mount it."""
    with _undisturbed():
        try:
            Namespace.open(path).close()
        except InvalidNamespace:
            return os.path.exists(path)
        return False


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Creates the directory as `ip netns` does, and holds its lock, which `ip netns` uses, too."""
    try:
        os.makedirs(DIRECTORY, 0o755, exist_ok=True)
        lock = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as cause:
        raise KernelError(f"cannot use {DIRECTORY}: {cause.strerror}", errno=cause.errno or 0) from None
    try:
        try:
            lock_exclusively(lock, _LOCK_PATIENCE)
        except TimeoutError:
            raise KernelError(f"another process has locked {DIRECTORY} for {_LOCK_PATIENCE:g} s") from None
        _share()
        yield
    finally:
        os.close(lock)


def _share() -> None:
    """Makes names that are created or deleted here change in other mount namespaces, too."""
    try:
        _mount("", DIRECTORY, _MS_SHARED | _MS_REC)
    except KernelError:
        _mount(DIRECTORY, DIRECTORY, _MS_BIND | _MS_REC)
        _mount("", DIRECTORY, _MS_SHARED | _MS_REC)


def _mount(source: str, target: str, flags: int) -> None:
    if _libc.mount(os.fsencode(source), os.fsencode(target), b"none", ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise KernelError(f"cannot mount {target}: {os.strerror(number)}", errno=number)
