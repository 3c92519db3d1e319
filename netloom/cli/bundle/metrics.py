"""The agent's metrics, if it serves them: one question to this machine itself, and to no other."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

from .member import Asked, Found, Member, Trouble

_DEFAULT = "127.0.0.1:9478"
_ABOUT = "the agent's metrics"
_NAME = "metrics.txt"
_PATIENCE = 3.0
_MOST = 4 << 20


def metrics(_asked: Asked) -> Iterator[Found]:
    place = os.environ.get("NETLOOM_METRICS_LISTEN") or _DEFAULT
    if place == "none":
        yield Trouble(_NAME, _ABOUT, "the agent is told to serve none")
        return
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or not _is_loopback(host):
        yield Trouble(_NAME, _ABOUT, f"{place} is not of this machine's loopback, and was not asked")
        return
    try:
        head, _, body = _answer(host, int(port)).partition(b"\r\n\r\n")
    except OSError as cause:
        yield Trouble(_NAME, _ABOUT, f"nobody answers at {place}: {cause.strerror or cause}")
        return
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if b" 200" not in head[:20]:
        yield Trouble(_NAME, _ABOUT, f"what listens at {place} answers: {status[:100]}")
        return
    yield Member(name=_NAME, about=_ABOUT, text=body.decode(errors="replace"))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _answer(host: str, port: int) -> bytes:
    deadline = time.monotonic() + _PATIENCE
    with socket.create_connection((host, port), timeout=_PATIENCE) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n")
        received = b""
        while len(received) < _MOST:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = connection.recv(1 << 16)
            if not chunk:
                break
            received += chunk
    return received
