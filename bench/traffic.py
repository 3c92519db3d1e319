"""TCP between two containers of a host: its throughput and its round-trip time.

This process sends, another one answers. Its sockets are created here, inside the containers' namespaces, so
that it needs only a descriptor: `python -m bench.traffic DESCRIPTOR`.

Both stay on one processor, where every step counts and no other has to be woken. Rounds are short and many: a
round is then either disturbed by the machine's other load or not, and medians are steady.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from netloom.kernel import Namespace

from .containers import forget, made, path
from .hosts import Host
from .place import CHECKOUT

# A request says how many bytes follow; the answer to all of them is one byte.
_REQUEST = struct.Struct("!Q")
_ANSWER = b"."
_CHUNK = 1 << 20
_PORT = 5001
# An amount that takes less than a twentieth of a second.
_CHUNKS = 64
_ROUND_TRIPS = 500


class Pair:
    """Two attached containers of a host, and a process that answers in one of them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._containers = made(2)
        host.run_all("ADD", self._containers, 1)
        self._near, far = self._containers
        self._address = host.address(far)
        with Namespace.open(path(far)) as namespace, namespace.entered():
            listener = socket.create_server((self._address, _PORT))
        self._processor = max(os.sched_getaffinity(0))
        with listener:
            # Whatever ends the run, this process does not outlive it.
            command = ["/usr/bin/setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "bench.traffic"]
            self._answering = subprocess.Popen(
                [*command, str(listener.fileno())], pass_fds=[listener.fileno()], cwd=CHECKOUT
            )
        os.sched_setaffinity(self._answering.pid, {self._processor})

    def gigabits_per_second(self) -> float:
        with self._connected() as connection:
            chunk = bytes(_CHUNK)
            began = time.perf_counter()
            connection.sendall(_REQUEST.pack(_CHUNKS * _CHUNK))
            for _ in range(_CHUNKS):
                connection.sendall(chunk)
            _require_answer(connection)
            return _CHUNKS * _CHUNK * 8 / (time.perf_counter() - began) / 1e9

    def round_trips_per_second(self) -> float:
        with self._connected() as connection:
            request = _REQUEST.pack(0)
            began = time.perf_counter()
            for _ in range(_ROUND_TRIPS):
                connection.sendall(request)
                _require_answer(connection)
            return _ROUND_TRIPS / (time.perf_counter() - began)

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        """Returns a connection for a round, already past the rules that see only its first packet."""
        with Namespace.open(path(self._near)) as namespace, namespace.entered():
            connection = socket.create_connection((self._address, _PORT), timeout=10)
        everywhere = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._processor})
        try:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # One round trip, so that the other side has accepted it.
                connection.sendall(_REQUEST.pack(0))
                _require_answer(connection)
                yield connection
        finally:
            os.sched_setaffinity(0, everywhere)

    def close(self) -> None:
        self._answering.kill()
        self._answering.wait()
        self._host.run_all("DEL", self._containers, 1)
        forget(self._containers)


def _require_answer(connection: socket.socket) -> None:
    if connection.recv(1) != _ANSWER:
        raise RuntimeError("the other container closed the connection: nothing to measure")


def _answer(connection: socket.socket, buffer: bytearray) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while request := connection.recv(_REQUEST.size, socket.MSG_WAITALL):
        (due,) = _REQUEST.unpack(request)
        while due > 0:
            got = connection.recv_into(buffer, min(due, len(buffer)))
            if not got:
                return
            due -= got
        connection.sendall(_ANSWER)


def main(descriptor: int) -> None:
    buffer = bytearray(_CHUNK)
    with socket.socket(fileno=descriptor) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                _answer(connection, buffer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
