"""Packets from one container to another without a pause, and how many of them arrived."""

from __future__ import annotations

import socket
import threading
import time
from typing import Self

from netloom.kernel import Namespace

_PORT = 4000
_EVERY = 0.004
_LAST = 2.0


class Stream:
    """UDP, numbered. It begins when it is entered; `lost` is known when it has ended."""

    def __init__(self, sender: str, receiver: str, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._to = (address, _PORT)
        self._socket = _socket_in(sender, family)
        self._receiving = _socket_in(receiver, family)
        self._receiving.bind(self._to)
        self._receiving.settimeout(0.2)
        self._receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._enough = threading.Event()
        self._over = threading.Event()
        self._arrived: set[int] = set()
        self.sent = 0
        self._threads = [threading.Thread(target=run) for run in (self._send, self._receive)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._threads[0].join()
        deadline = time.monotonic() + _LAST
        while self.lost and time.monotonic() < deadline:
            time.sleep(0.02)
        self._over.set()
        self._threads[1].join()
        self._socket.close()
        self._receiving.close()

    @property
    def lost(self) -> int:
        return self.sent - len(self._arrived)

    def _send(self) -> None:
        while not self._enough.wait(_EVERY):
            self._socket.sendto(self.sent.to_bytes(4, "big"), self._to)
            self.sent += 1

    def _receive(self) -> None:
        while not self._over.is_set():
            try:
                self._arrived.add(int.from_bytes(self._receiving.recv(16), "big"))
            except TimeoutError:
                continue


def _socket_in(container: str, family: int) -> socket.socket:
    with Namespace.open(f"/run/netns/{container}") as namespace, namespace.entered():
        return socket.socket(family, socket.SOCK_DGRAM)
