"""TCP between two namespaces: a connection, its throughput against a limit, and a port of the host."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Self

from msgspec import Struct

from ...kernel import Namespace
from .endpoints import NUMBERS, End
from .namespaces import socket_in
from .report import Failed, Family, Skipped, lost, refused

# Larger than several packets of any MTU, and smaller than any socket's buffer.
_CONTENT = 12 << 10
_ANY: Mapping[Family, str] = {"ipv4": "0.0.0.0", "ipv6": "::"}


class TcpListener:
    """A TCP listener at an address in a namespace."""

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
        """A listener at one end; on the host at any address, since its address may be on no link."""
        return cls(end.namespace, family, _ANY[family] if end.is_host else end.addresses[family], port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


def connected(
    namespace: Namespace, family: Family, target: tuple[str, int], listener: TcpListener, patience: float
) -> tuple[socket.socket, socket.socket, str]:
    """Both ends of a new connection, and the source address that the listener sees."""
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
            raise Failed("something else answered in place of the receiver") from None
        called.settimeout(patience)
        opened.pop_all()
        return calling, called, str(peer[0])


def exchange(
    namespace: Namespace, family: Family, target: tuple[str, int], listener: TcpListener, patience: float
) -> tuple[float, str]:
    """Milliseconds for a connection and data both ways, and the source address that the listener saw."""
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
            f"connected, but only {len(received)} of {len(content)} bytes arrived: large packets are lost"
        ) from None
    except OSError as cause:
        raise refused(cause) from None
    if received != content:
        raise Failed("the received data differs from the sent data")


MISSED = "limit-missed"
# A burst passes first, at any speed; a slow sender takes longer to reach its rate.
_WARM_UP = 0.4
_PACE = 5_000_000
_LONGEST_WARM_UP = 4.0
_MEASURED = 1.0
_MEASUREMENTS = 3
# Headers count for the limit and not for the measurement; a busy machine may be slower than any limit.
_LEAST_SHARE, _MOST_SHARE = 0.7, 1.15
_PIECE = bytes(1 << 16)


class RateLimit(Struct, frozen=True):
    """Bits per second, and bits of a burst."""

    rate: int
    burst: int = 0


def shown_rate(rate: float) -> str:
    """
    >>> shown_rate(50_000_000), shown_rate(1_250_000_000), shown_rate(64_000)
    ('50 Mbit/s', '1.25 Gbit/s', '64 kbit/s')
    """
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.0f} bit/s"


def measure_bandwidth(
    sender: End, receiver: End, family: Family, limit: RateLimit, patience: float, deadline: float
) -> tuple[float, str]:
    """Milliseconds that it took, and the rate. Raises `Failed` if the rate is not near the limit."""
    begun = time.monotonic()
    warm_up = max(_WARM_UP + _PACE / limit.rate, _WARM_UP + 1.2 * limit.burst / limit.rate)
    if warm_up > _LONGEST_WARM_UP:
        raise Skipped(
            f"a limit of {shown_rate(limit.rate)} with bursts of {limit.burst} bits takes too long to measure"
        )
    measured: list[float] = []
    while len(measured) < _MEASUREMENTS and (
        not measured or time.monotonic() + warm_up + _MEASURED < deadline
    ):
        measured.append(_throughput(sender, receiver, family, warm_up, patience))
        if _LEAST_SHARE <= measured[-1] / limit.rate <= _MOST_SHARE:
            return (
                time.monotonic() - begun
            ) * 1000, f"{shown_rate(measured[-1])} of {shown_rate(limit.rate)}"
    best = min(measured, key=lambda it: abs(it - limit.rate))
    how = "faster" if best > limit.rate else "slower"
    raise Failed(
        f"{shown_rate(best)}, which is {how} than the limit of {shown_rate(limit.rate)}", code=MISSED
    )


def _throughput(sender: End, receiver: End, family: Family, warm_up: float, patience: float) -> float:
    address = receiver.addresses[family]
    with TcpListener.of(receiver, family) as listener:
        sending, receiving, _ = connected(
            sender.namespace, family, (address, listener.port), listener, patience
        )
    with sending, receiving:
        thread = threading.Thread(target=_send, args=(sending,), daemon=True)
        thread.start()
        try:
            _received(receiving, warm_up)
            return _received(receiving, _MEASURED)
        finally:
            for end in (receiving, sending):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            thread.join(patience)


def _send(sending: socket.socket) -> None:
    # It ends when the other side closes the connection.
    with suppress(OSError):
        while True:
            sending.send(_PIECE)


def _received(receiving: socket.socket, seconds: float) -> float:
    """Measures bits per second from now on."""
    begun, total = time.monotonic(), 0
    try:
        while (passed := time.monotonic() - begun) < seconds:
            chunk = receiving.recv(1 << 20)
            if not chunk:
                raise Failed("the connection ended")
            total += len(chunk)
    except TimeoutError:
        raise Failed("the connection stalled") from None
    except OSError as cause:
        raise Failed(f"the connection broke: {cause.strerror}") from None
    return total * 8 / passed


CONTAINER_PORT = 8080
_PORT_TRIES = 20
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class ProbedPort:
    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self) -> int:
        """Reserves a free port, another one than before."""
        self.release()
        for _ in range(_PORT_TRIES):
            try:
                self._bind(socket.AF_INET, ("0.0.0.0", 0))
                self.number = self._sockets[0].getsockname()[1]
                if socket.has_ipv6:
                    self._bind_ipv6()
                return self.number
            except OSError:
                self.release()
        raise Skipped("the host has no free port")

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
