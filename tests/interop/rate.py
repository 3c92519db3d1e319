"""How fast bytes of a TCP connection arrive."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from netloom.cni.plugin import inside

# Of the connection's first bytes, a burst lets through more than the rate.
_WARM_UP = 0.5
_PIECE = b"\0" * (1 << 16)


def rate(sender: str, receiver: str, address: str, *, seconds: float = 1.5) -> float:
    """Bits a second that a namespace gets to another one, which has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(receiver), socket.create_server((address, 0), family=family) as listening:
        port = listening.getsockname()[1]
        with inside(sender):
            sending = socket.create_connection((address, port), timeout=5)
        receiving, _ = listening.accept()

    def send() -> None:
        # It ends when the other side has hung up.
        with contextlib.suppress(OSError):
            while True:
                sending.sendall(_PIECE)

    thread = threading.Thread(target=send)
    with sending, receiving:
        receiving.settimeout(5)
        thread.start()
        try:
            _received(receiving, _WARM_UP)
            return _received(receiving, seconds)
        finally:
            receiving.shutdown(socket.SHUT_RDWR)
            receiving.close()
            thread.join()


def _received(receiving: socket.socket, seconds: float) -> float:
    """Bits a second, from now on."""
    begun = time.monotonic()
    total = 0
    while (passed := time.monotonic() - begun) < seconds:
        total += len(receiving.recv(1 << 20))
    return total * 8 / passed
