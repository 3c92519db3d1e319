"""Containers: network namespaces with a path, which this process creates in batches.

The kernel takes time to destroy a namespace, and holds its locks meanwhile. So used namespaces are kept until
new ones are needed, and then destroyed and waited for all at once.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from netloom.kernel import Namespace

_NAMES = Path("/run/netns")
_MS_BIND, _MNT_DETACH = 0x1000, 2
_AT_A_TIME = 50

_libc = ctypes.CDLL(None, use_errno=True)
_numbers = count(1)


def made(amount: int) -> list[str]:
    """Creates containers. A container's ID is its name below /run/netns, which is private to the run."""
    _NAMES.mkdir(exist_ok=True)
    names = [f"bench{next(_numbers)}" for _ in range(amount)]
    for name in names:
        os.close(os.open(path(name), os.O_CREAT | os.O_EXCL | os.O_RDONLY))
        with Namespace.new() as namespace:
            source = f"/proc/self/fd/{namespace.fileno()}".encode()
            if _libc.mount(source, path(name).encode(), None, _MS_BIND, None) != 0:
                raise OSError(ctypes.get_errno(), f"cannot name the namespace {name}")
    return names


def path(name: str) -> str:
    return str(_NAMES / name)


def forget(names: list[str]) -> None:
    """Releases them. They end when nothing in them holds them."""
    for name in names:
        _libc.umount2(path(name).encode(), _MNT_DETACH)
        os.unlink(path(name))


@contextmanager
def containers(amount: int) -> Iterator[list[str]]:
    """Gives some containers for a block."""
    names = made(amount)
    try:
        yield names
    finally:
        forget(names)


class Supply:
    """Gives one fresh container after the other."""

    def __init__(self) -> None:
        self._fresh: list[str] = []
        self._used: list[str] = []

    def take(self) -> str:
        if not self._fresh:
            self.close()
            settle(0.2)
            self._fresh = made(_AT_A_TIME)
            settle()
        name = self._fresh.pop()
        self._used.append(name)
        return name

    def close(self) -> None:
        forget(self._used)
        forget(self._fresh)
        self._used, self._fresh = [], []


def settle(seconds: float = 0.03) -> None:
    """Waits for the kernel to finish what earlier rounds deleted."""
    time.sleep(seconds)
