"""Ping without a program: ICMP echo requests from a socket in a namespace, and the path MTU that they find.

Path MTU: a packet that fills the sender's link must arrive whole, and one byte more must be refused at once.
If the ends of a link have different MTUs, or a later link has a smaller one, small packets pass and large
ones do not: connections open, and hang.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from typing import Self

from ...kernel import Namespace
from .endpoints import NUMBERS, End, mtu_of
from .namespaces import socket_in
from .report import Failed, Family, lost, refused

_HEADER = struct.Struct("!BBHHH")
# ICMP types of request and reply.
_KINDS = {"ipv4": (8, 0), "ipv6": (128, 129)}
_PROTOCOLS = {"ipv4": socket.IPPROTO_ICMP, "ipv6": socket.IPPROTO_ICMPV6}
# The size of the IP and ICMP headers.
_HEADERS = {"ipv4": 28, "ipv6": 48}
_IPV4_HEADER_UNIT = 4
_SEND_AGAIN = 0.4
_PAUSE = 0.05
# An ICMP error counts when it is received a second time.
_ERRORS_BELIEVED = 2

_IP_RECVERR, _IPV6_RECVERR = 11, 25
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _IPV6_DONTFRAG = 10, 23, 62
_DO = 2
_IP_MTU, _IPV6_MTU = 14, 24

SMALL = 84


class Echo:
    """Pings one address. Packets are never fragmented, neither here nor on their path."""

    def __init__(self, namespace: Namespace, family: Family, target: str) -> None:
        self._family = family
        self._number = int.from_bytes(os.urandom(2), "big")
        self._sequence = 0
        self._socket = socket_in(namespace, NUMBERS[family], socket.SOCK_RAW, _PROTOCOLS[family])
        try:
            self._set_up(target)
        except OSError as cause:
            self._socket.close()
            raise refused(cause) from None
        except BaseException:
            self._socket.close()
            raise

    def _set_up(self, target: str) -> None:
        if self._family == "ipv4":
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _DO)
        else:
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _DO)
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_DONTFRAG, 1)
        self._socket.connect((target, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def path_mtu(self) -> int:
        """The path MTU that the kernel knows so far."""
        if self._family == "ipv4":
            return self._socket.getsockopt(socket.IPPROTO_IP, _IP_MTU)
        return self._socket.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)

    def ask(self, patience: float, size: int = SMALL) -> float:
        """Milliseconds until the reply to a packet of `size` bytes. Sends it again if there is none."""
        deadline = time.monotonic() + patience
        errors: list[OSError] = []
        while (left := deadline - time.monotonic()) > 0:
            begun = time.monotonic()
            try:
                if self._answered(size, min(left, _SEND_AGAIN)):
                    return (time.monotonic() - begun) * 1000
            except OSError as cause:
                time.sleep(min(_PAUSE, max(deadline - time.monotonic(), 0)))
                if cause.errno == errno.ENOBUFS:  # a queue, or the far end of the link, dropped it
                    continue
                errors.append(cause)
                if cause.errno == errno.EMSGSIZE or len(errors) >= _ERRORS_BELIEVED:
                    raise refused(cause) from None
        raise refused(errors[-1]) if errors else lost(patience)

    def _answered(self, size: int, patience: float) -> bool:
        self._sequence += 1
        content = os.urandom(size - _HEADERS[self._family])
        self._socket.send(self._request(content))
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                packet = self._socket.recv(1 << 16)
            except TimeoutError:
                return False
            if self._is_answer(packet, content):
                return True
        return False

    def _request(self, content: bytes) -> bytes:
        kind, _ = _KINDS[self._family]
        plain = _HEADER.pack(kind, 0, 0, self._number, self._sequence) + content
        # The kernel computes that of IPv6.
        total = checksum(plain) if self._family == "ipv4" else 0
        return _HEADER.pack(kind, 0, total, self._number, self._sequence) + content

    def _is_answer(self, packet: bytes, content: bytes) -> bool:
        if self._family == "ipv4":
            packet = packet[(packet[0] & 0xF) * _IPV4_HEADER_UNIT :]
        if len(packet) < _HEADER.size:
            return False
        kind, _, _, number, sequence = _HEADER.unpack_from(packet)
        _, answer = _KINDS[self._family]
        mine = (kind, number, sequence) == (answer, self._number, self._sequence)
        return mine and packet[_HEADER.size :] == content


def ping(namespace: Namespace, family: Family, target: str, patience: float) -> float:
    """Milliseconds until the reply. Raises `Failed` if there is none."""
    with Echo(namespace, family, target) as echo:
        return echo.ask(patience)


def reaches(namespace: Namespace, family: Family, target: str, patience: float) -> bool:
    try:
        ping(namespace, family, target, patience)
    except Failed:
        return False
    return True


def checksum(data: bytes) -> int:
    """The checksum of the Internet protocols (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


NARROW = "path-narrow"
# The smallest MTU of a link (RFC 791 allows 68, but no current link is that small; RFC 8200).
_LEAST_MTU = {"ipv4": 576, "ipv6": 1280}
_QUICK = 0.3


def path_mtu_of(sender: End, family: Family, target: str, patience: float) -> tuple[float, str]:
    """Milliseconds until the reply to the largest packet, and the detail for the report."""
    mtu = mtu_of(sender.namespace, sender.ifname) or 0
    if mtu < _LEAST_MTU[family]:
        raise Failed(f"{sender.ifname} has an MTU of {mtu}, but {family} needs {_LEAST_MTU[family]}")
    with Echo(sender.namespace, family, target) as echo:
        try:
            milliseconds = echo.ask(patience, mtu)
        except Failed as failed:
            raise _narrowed(echo, sender, family, mtu, patience, failed) from None
        _require_refusal(echo, mtu + 1)
    return milliseconds, f"{mtu} bytes"


def _require_refusal(echo: Echo, size: int) -> None:
    try:
        echo.ask(_QUICK, size)
    except Failed as failed:
        if failed.errno == errno.EMSGSIZE:
            return
        raise Failed(f"a packet of {size} bytes was neither answered nor refused") from None
    raise Failed(f"a packet of {size} bytes passed, although the link's MTU is smaller")


def _narrowed(echo: Echo, sender: End, family: Family, mtu: int, patience: float, failed: Failed) -> Failed:
    if failed.errno == errno.EMSGSIZE:
        narrow = echo.path_mtu
        return Failed(f"{sender.ifname} has an MTU of {mtu}, but the path takes {narrow} bytes", code=NARROW)
    if failed.errno:
        return failed
    passing = _largest(echo, _LEAST_MTU[family], mtu, time.monotonic() + 2 * patience)
    if passing is None:
        return failed
    return Failed(
        f"{sender.ifname} has an MTU of {mtu}, but packets of more than about {passing} bytes are lost "
        "without an error",
        code=NARROW,
    )


def _largest(echo: Echo, low: int, high: int, deadline: float) -> int | None:
    """The largest size that passes, as exactly as time allows; None if not even small packets pass."""
    if not _passes(echo, SMALL):
        return None
    if not _passes(echo, low):
        return SMALL
    while high - low > 1 and time.monotonic() < deadline:
        middle = (low + high) // 2
        low, high = (middle, high) if _passes(echo, middle) else (low, middle)
    return low


def _passes(echo: Echo, size: int) -> bool:
    try:
        echo.ask(_QUICK, size)
    except Failed:
        return False
    return True
