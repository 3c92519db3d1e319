"""One TCP connection between two namespaces, with enough to carry that its packets are large."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from ...kernel import Namespace
from .elsewhere import socket_in
from .ends import NUMBERS, End
from .failed import Failed, lost, refused
from .report import Family

# Several packets of any MTU, and less than any socket holds.
_CONTENT = 12 << 10
_ANY: Mapping[Family, str] = {"ipv4": "0.0.0.0", "ipv6": "::"}


class Listener:
    """Somebody in a namespace who answers at an address."""

    def __init__(self, namespace: Namespace, family: Family, address: str, port: int = 0) -> None:
        self.socket = socket_in(namespace, NUMBERS[family], socket.SOCK_STREAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((address, port))
            self.socket.listen(8)
        except OSError as cause:
            self.socket.close()
            raise refused(cause) from None
        except BaseException:
            self.socket.close()
            raise

    @classmethod
    def of(cls, end: End, family: Family, port: int = 0) -> Self:
        """The host may be called by an address that it has no link for."""
        return cls(end.namespace, family, _ANY[family] if end.is_host else end.addresses[family], port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


def connected(
    namespace: Namespace, family: Family, target: tuple[str, int], listener: Listener, patience: float
) -> tuple[socket.socket, socket.socket, str]:
    """Both ends of a new connection, and whom the listener takes for the caller."""
    with ExitStack() as opened:
        calling = opened.enter_context(socket_in(namespace, NUMBERS[family], socket.SOCK_STREAM))
        calling.settimeout(patience)
        try:
            calling.connect(target)
        except TimeoutError:
            raise lost(patience) from None
        except OSError as cause:
            raise refused(cause) from None
        listener.socket.settimeout(patience)
        try:
            called, peer = listener.socket.accept()
        except TimeoutError:
            raise Failed("somebody else answered in the place of the one that was called") from None
        called.settimeout(patience)
        opened.pop_all()
        return calling, called, str(peer[0])


def exchange(
    namespace: Namespace, family: Family, target: tuple[str, int], listener: Listener, patience: float
) -> tuple[float, str]:
    """Milliseconds for a connection and content both ways, and who was seen as the caller."""
    begun = time.monotonic()
    calling, called, peer = connected(namespace, family, target, listener, patience)
    with calling, called:
        for sender, receiver in ((calling, called), (called, calling)):
            _carry(sender, receiver, patience)
    return (time.monotonic() - begun) * 1000, peer


def _carry(sender: socket.socket, receiver: socket.socket, patience: float) -> None:
    content = os.urandom(_CONTENT)
    deadline = time.monotonic() + patience
    received = b""
    try:
        sender.sendall(content)
        while len(received) < len(content):
            receiver.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = receiver.recv(1 << 16)
            if not chunk:
                raise Failed(f"the connection ended after {len(received)} bytes")
            received += chunk
    except TimeoutError:
        raise Failed(
            f"connected, and then only {len(received)} of {len(content)} bytes came: large packets are lost"
        ) from None
    except OSError as cause:
        raise refused(cause) from None
    if received != content:
        raise Failed("what came is not what was sent")
