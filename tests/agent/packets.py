"""Packets that a container should not be able to send, and sockets in namespaces to send and receive them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from netloom.kernel import Namespace

ROUTER_ADVERTISEMENT = 134
REDIRECT = 137
NEIGHBOUR_SOLICITATION = 135

_ETHERNET = struct.Struct("!6s6sH")
_IPV6 = struct.Struct("!IHBB16s16s")
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")


@contextmanager
def socket_in(
    container: str, family: int, kind: int, protocol: int = 0, namespace: Namespace | None = None
) -> Iterator[socket.socket]:
    """A socket in a container, or in any other namespace."""
    place = Namespace.open(f"/run/netns/{container}") if namespace is None else namespace
    with place.entered(), socket.socket(family, kind, protocol) as opened:
        opened.settimeout(10)
        yield opened


def send_raw(container: str, ifname: str, kind: int, payload: bytes, *, to: str, source: str) -> None:
    """A frame with any content, past the container's own IP stack."""
    frame = _ETHERNET.pack(_mac(to), _mac(source), kind) + payload
    with socket_in(container, socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((ifname, 0))
        raw.send(frame)


def udp4(source: str, destination: str, port: int, content: bytes) -> bytes:
    size = 28 + len(content)
    packed = socket.inet_aton(source), socket.inet_aton(destination)
    header = _IPV4.pack(0x45, 0, size, 0, 0, 64, socket.IPPROTO_UDP, 0, *packed)
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    return header + _UDP.pack(40000, port, 8 + len(content), 0) + content


def udp6(source: str, destination: str, port: int, content: bytes) -> bytes:
    addresses = _ipv6(source), _ipv6(destination)
    size = 8 + len(content)
    body = _UDP.pack(40000, port, size, 0) + content
    total = _checksum(b"".join(addresses) + struct.pack("!II", size, socket.IPPROTO_UDP) + body)
    body = _UDP.pack(40000, port, size, total or 0xFFFF) + content
    return _IPV6.pack(6 << 28, size, socket.IPPROTO_UDP, 64, *addresses) + body


def router_advertisement(source: str, prefix: str) -> bytes:
    """A router that offers itself as the default, and a prefix to take addresses from."""
    option = struct.pack("!BBBBIII16s", 3, 4, 64, 0xC0, 86400, 86400, 0, _ipv6(prefix))
    return icmp6(source, "ff02::1", ROUTER_ADVERTISEMENT, struct.pack("!BBHII", 64, 0, 1800, 0, 0) + option)


def icmp6(source: str, destination: str, kind: int, content: bytes) -> bytes:
    addresses = _ipv6(source), _ipv6(destination)
    body = struct.pack("!BBH", kind, 0, 0) + content
    total = _checksum(b"".join(addresses) + struct.pack("!II", len(body), socket.IPPROTO_ICMPV6) + body)
    body = struct.pack("!BBH", kind, 0, total) + content
    return _IPV6.pack(6 << 28, len(body), socket.IPPROTO_ICMPV6, 255, *addresses) + body


def _ipv6(text: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6, text)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
