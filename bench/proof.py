"""Proves that a host does the measured work: a host port, masquerading, limits in both directions.

It moves the far end of the host's uplink to a place where a server answers, so the host is useless
afterwards.
"""

from __future__ import annotations

import socket
import subprocess
from threading import Thread

from netloom.kernel import Namespace

from .containers import containers, path
from .hosts import ADDRESS, GATEWAY, IFNAME, Host
from .measure import milliseconds

_TIMEOUT = 5.0
_AMOUNT = 1_000_000
# A million bytes take at least 64 ms at a hundred million bits per second after a burst of 1.6 million,
# and two without a limit.
_LIMITED = 40.0


def prove(host: Host) -> None:
    """Raises a RuntimeError that says what differs from the configuration."""
    with containers(2) as [container, outside]:
        [mapping] = host.arguments(container, IFNAME)["portMappings"]
        host.run("ADD", container)
        _answer_outside(host, outside)
        with Namespace.open(path(container)) as inner, Namespace.open(path(outside)) as outer:
            _require_port_and_limits(inner, outer, mapping["hostPort"], mapping["containerPort"])
            _require_masquerading(inner, outer)
        host.run("DEL", container)


def _answer_outside(host: Host, outside: str) -> None:
    with host.namespace.entered():
        subprocess.run(["ip", "link", "set", "wire", "netns", outside], check=True)
    with Namespace.open(path(outside)) as namespace, namespace.entered():
        for words in (["address", "add", f"{GATEWAY}/24", "dev", "wire"], ["link", "set", "wire", "up"]):
            subprocess.run(["ip", *words], check=True)


def _require_port_and_limits(inner: Namespace, outer: Namespace, host_port: int, port: int) -> None:
    with inner.entered():
        listener = socket.create_server(("", port))
    with listener:
        with outer.entered():
            client = socket.create_connection((ADDRESS, host_port), timeout=_TIMEOUT)
        listener.settimeout(_TIMEOUT)
        server, _ = listener.accept()
    with client, server:
        for direction, sender, receiver in (("in", client, server), ("out", server, client)):
            took = milliseconds(lambda: _send(sender, receiver))  # noqa: B023
            if took < _LIMITED:
                raise RuntimeError(f"a million bytes went {direction} in {took:.1f} ms: there is no limit")


def _send(sender: socket.socket, receiver: socket.socket) -> None:
    receiver.settimeout(_TIMEOUT)
    thread = Thread(target=sender.sendall, args=(bytes(_AMOUNT),))
    thread.start()
    got = 0
    while got < _AMOUNT:
        got += len(receiver.recv(1 << 16)) or _AMOUNT
    thread.join()


def _require_masquerading(inner: Namespace, outer: Namespace) -> None:
    with outer.entered():
        listener = socket.create_server((GATEWAY, 7))
    with listener:
        with inner.entered():
            client = socket.create_connection((GATEWAY, 7), timeout=_TIMEOUT)
        listener.settimeout(_TIMEOUT)
        server, (source, _) = listener.accept()
        client.close()
        server.close()
    if source != ADDRESS:
        raise RuntimeError(f"outside, the container appears as {source}, not as its host, {ADDRESS}")
