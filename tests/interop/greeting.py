"""Servers that greet, on the host, in a container or outside, and whoever goes there."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from netloom.cni.plugin import inside

GREETING = "hello"


class _Greeter(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(GREETING.encode())


class _Mirror(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(str(self.client_address[0]).removeprefix("::ffff:").encode())


class _DatagramGreeter(socketserver.DatagramRequestHandler):
    def handle(self) -> None:
        self.wfile.write(GREETING.encode())


class _Server(socketserver.TCPServer):
    # Both families: a socket of IPv6 takes connections of IPv4, too.
    address_family = socket.AF_INET6
    allow_reuse_address = True


class _DatagramServer(socketserver.UDPServer):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def _served(
    server: type[socketserver.TCPServer],
    handler: type[socketserver.BaseRequestHandler],
    port: int,
    netns: str | None,
) -> Iterator[int]:
    with contextlib.nullcontext() if netns is None else inside(netns):
        made = server(("::", port), handler)
    with made:
        serving = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield int(made.server_address[1])
        finally:
            made.shutdown()
            serving.join()


def greeter(port: int = 0, netns: str | None = None) -> AbstractContextManager[int]:
    """Greets whoever connects, in a namespace or where the test is; gives its port."""
    return _served(_Server, _Greeter, port, netns)


def datagram_greeter(port: int = 0, netns: str | None = None) -> AbstractContextManager[int]:
    """The same for UDP."""
    return _served(_DatagramServer, _DatagramGreeter, port, netns)


def mirror(port: int = 0, netns: str | None = None) -> AbstractContextManager[int]:
    """Tells whoever connects by which address it came."""
    return _served(_Server, _Mirror, port, netns)


def greeting(host: str, port: int) -> str | None:
    """What is heard there, from where the test is.

    Tried again unless it is refused: the kernel's one table of IPv6 neighbours may be full for five seconds.
    """
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.create_connection((host, port), timeout=5) as connection:
                return connection.recv(100).decode() or None
        except ConnectionRefusedError:
            return None
        except OSError:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.1)


def datagram_greeting(host: str, port: int, *, source_port: int = 0, patience: float = 5) -> str | None:
    """What is heard there by UDP, from where the test is. As one does by UDP, it asks again and again."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + patience
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.3)
        asking.bind(("", source_port))
        asking.connect((host, port))
        while time.monotonic() < deadline:
            try:
                asking.send(b"?")
                return asking.recv(100).decode()
            except OSError:
                time.sleep(0.02)
    return None


def greetings(port: int, *hosts: str, netns: str | None = None) -> dict[str, str | None]:
    """What is heard at a port of each, from a namespace or from where the test is."""
    with contextlib.nullcontext() if netns is None else inside(netns):
        return {host: greeting(host, port) for host in hosts}


def datagram_greetings(port: int, *hosts: str, netns: str | None = None) -> dict[str, str | None]:
    """The same by UDP."""
    with contextlib.nullcontext() if netns is None else inside(netns):
        return {host: datagram_greeting(host, port) for host in hosts}
