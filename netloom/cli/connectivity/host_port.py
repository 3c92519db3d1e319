"""A port of the host that nobody has, held while it is led to a container.

Bound and not listening: whoever looks for a free port does not get it, and what is not translated is refused
at once.
"""

from __future__ import annotations

import errno
import socket
from typing import Self

from .failed import Skipped

CONTAINER_PORT = 8080
_TRIES = 20
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class HostPort:
    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self) -> int:
        """Another one than before."""
        self.release()
        for _ in range(_TRIES):
            try:
                self._bind(socket.AF_INET, ("0.0.0.0", 0))
                self.number = self._sockets[0].getsockname()[1]
                if socket.has_ipv6:
                    self._bind_ipv6()
                return self.number
            except OSError:
                self.release()
        raise Skipped("no port of the host is free")

    def _bind_ipv6(self) -> None:
        try:
            self._bind(socket.AF_INET6, ("::", self.number))
        except OSError as cause:
            if cause.errno not in _NO_IPV6:
                raise

    def _bind(self, family: int, address: tuple[str, int]) -> None:
        made = socket.socket(family, socket.SOCK_STREAM)
        self._sockets.append(made)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)

    def release(self) -> None:
        for it in self._sockets:
            it.close()
        self._sockets.clear()
