"""Work in another network namespace, by a thread that ends with it: no other thread ever moves.

A socket stays in the namespace in which it was made, so making it is all that has to be done there.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from ...kernel import KernelError, Namespace

T = TypeVar("T")

# None of it waits for anybody but the kernel.
_PATIENCE = 10.0


def in_thread(work: Callable[[], T]) -> T:
    """For what moves the thread that does it."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if failed:
        raise failed[0]
    if not done:
        raise KernelError(f"the kernel gave no answer within {_PATIENCE:g} s", errno=errno.ETIMEDOUT)
    return done[0]


def elsewhere(namespace: Namespace, work: Callable[[], T]) -> T:
    def inside() -> T:
        with namespace.entered():
            return work()

    return in_thread(inside)


def socket_in(namespace: Namespace, family: int, kind: int, protocol: int = 0) -> socket.socket:
    return elsewhere(namespace, lambda: socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol))
