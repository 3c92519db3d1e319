"""A TCP server that greets, on the host or in a container, and whoever goes there."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

from netloom.cni.netns import inside

GREETING = "hello"


class _Greeter(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(GREETING.encode())


class _Server(socketserver.TCPServer):
    # Both families: a socket of IPv6 takes connections of IPv4, too.
    address_family = socket.AF_INET6
    allow_reuse_address = True


@contextlib.contextmanager
def greeter(port: int = 0, netns: str | None = None) -> Iterator[int]:
    """Greets whoever connects, in a container or where the test is; gives its port."""
    with contextlib.nullcontext() if netns is None else inside(netns):
        server = _Server(("::", port), _Greeter)
    with server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            serving.join()


def greeting(host: str, port: int) -> str | None:
    """What is heard there, from where the test is."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            return connection.recv(100).decode() or None
    except OSError:
        return None
