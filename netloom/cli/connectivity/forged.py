"""A packet with somebody else's source address, past the sender's own stack: it must not arrive.

An honest one follows it on the same way. What arrives first tells: nothing has to be waited for.
"""

from __future__ import annotations

import os
import socket
import struct
import time

from ...kernel.values import packed_ip, shown_ip
from .elsewhere import socket_in
from .ends import NUMBERS, End
from .failed import Failed, Skipped, refused
from .report import Family

ARRIVED = "spoofing-passes"
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_KINDS = {"ipv4": 0x0800, "ipv6": 0x86DD}
_EVERYWHERE = {"ipv4": "0.0.0.0", "ipv6": "::"}
_AGAIN = 0.2


def try_forgery(sender: End, receiver: End, family: Family, patience: float) -> tuple[float, str]:
    """Milliseconds until the honest packet came, and what to say. Raises `Failed` if the other one did."""
    own, target = sender.addresses[family], receiver.addresses[family]
    strange = _strange(own, {own, target})
    mark = os.urandom(8)
    listening = socket_in(receiver.namespace, NUMBERS[family], socket.SOCK_DGRAM)
    with listening:
        listening.bind((_EVERYWHERE[family], 0))
        port = listening.getsockname()[1]
        begun = time.monotonic()
        while time.monotonic() < begun + patience:
            _send(sender, family, _packet(strange, target, port, mark + b"forged"))
            _send(sender, family, _packet(own, target, port, mark + b"honest"))
            arrived = _arrived(listening, mark)
            if arrived == b"forged":
                raise Failed(f"a packet from {strange} arrived, which is not the sender's", code=ARRIVED)
            if arrived == b"honest":
                return (time.monotonic() - begun) * 1000, f"nothing from {strange} arrives"
    raise Skipped("an honest packet on the same way did not arrive either")


def _arrived(listening: socket.socket, mark: bytes) -> bytes:
    deadline = time.monotonic() + _AGAIN
    while (left := deadline - time.monotonic()) > 0:
        listening.settimeout(left)
        try:
            content = listening.recv(100)
        except TimeoutError:
            break
        if content.startswith(mark):
            return content.removeprefix(mark)
    return b""


def _strange(own: str, taken: set[str]) -> str:
    """A neighbour's address: one that another container may well have."""
    packed = packed_ip(own)
    candidates = (shown_ip(packed[:-1] + bytes([packed[-1] ^ bits])) for bits in (0x40, 0x41, 0x42))
    return next(it for it in candidates if it not in taken)


def _send(sender: End, family: Family, packet: bytes) -> None:
    raw = socket_in(sender.namespace, socket.AF_PACKET, socket.SOCK_DGRAM)
    with raw:
        mac = bytes.fromhex(sender.host_mac.replace(":", ""))
        try:
            raw.sendto(packet, (sender.ifname, _KINDS[family], 0, 0, mac))
        except OSError as cause:
            raise refused(cause) from None


def _packet(source: str, target: str, port: int, content: bytes) -> bytes:
    addresses = packed_ip(source) + packed_ip(target)
    size = _UDP.size + len(content)
    pseudo = addresses + struct.pack("!II", size, socket.IPPROTO_UDP)
    body = _UDP.pack(40000, port, size, 0) + content
    body = _UDP.pack(40000, port, size, _checksum(pseudo + body) or 0xFFFF) + content
    if len(addresses) == 8:
        head = _IPV4.pack(
            0x45, 0, _IPV4.size + size, 0, 0, 64, socket.IPPROTO_UDP, 0, addresses[:4], addresses[4:]
        )
        head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    else:
        head = _IPV6.pack(6 << 28, size, socket.IPPROTO_UDP, 64, addresses[:16], addresses[16:])
    return head + body


def _checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
