"""One probe: what it sends, between which ends, and how it may fail. Includes the probe of spoofing."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from ...kernel.values import packed_ip, shown_ip
from .endpoints import NUMBERS, End
from .namespaces import socket_in
from .ping import checksum, path_mtu_of, ping
from .report import Failed, Family, Skipped, refused
from .tcp import CONTAINER_PORT, TcpListener, exchange

# Returns milliseconds and the detail for the report. Raises `Failed` or `Skipped`.
Attempt: TypeAlias = Callable[[float], tuple[float, str]]
Key: TypeAlias = tuple[str, str, str, str]


class Probe(Struct, frozen=True, kw_only=True, eq=False):
    """One attempt. `needs` must have passed before it; if `doubts` failed, the probe waits less long.

    `address` is where it sends packets, and `receiver` the end that gets them.
    """

    what: str
    family: Family
    sender: End
    target: str
    attempt: Attempt
    address: str = ""
    receiver: End | None = None
    needs: Key | None = None
    doubts: Key | None = None

    @property
    def key(self) -> Key:
        return self.what, self.family, self.sender.name, self.target


def ping_of(family: Family, sender: End, receiver: End) -> Probe:
    address = receiver.addresses[family]
    return Probe(
        what="ping",
        family=family,
        sender=sender,
        target=receiver.name,
        attempt=lambda patience: (ping(sender.namespace, family, address, patience), ""),
        address=address,
        receiver=receiver,
    )


def tcp_of(family: Family, sender: End, receiver: End, what: str = "tcp", *, doubt: bool = True) -> Probe:
    address = receiver.addresses[family]

    def attempt(patience: float) -> tuple[float, str]:
        with TcpListener.of(receiver, family) as listener:
            milliseconds, _ = exchange(sender.namespace, family, (address, listener.port), listener, patience)
        return milliseconds, ""

    return Probe(
        what=what,
        family=family,
        sender=sender,
        target=receiver.name,
        attempt=attempt,
        address=address,
        receiver=receiver,
        doubts=("ping", family, sender.name, receiver.name) if doubt else None,
    )


def both_of(family: Family, sender: End, receiver: End) -> Probe:
    """A probe by ping and TCP, with the host at one end."""
    address = receiver.addresses[family]
    tcp = tcp_of(family, sender, receiver)

    def attempt(patience: float) -> tuple[float, str]:
        try:
            milliseconds = ping(sender.namespace, family, address, patience)
        except Failed as failed:
            raise Failed(f"ping of {address}: {failed}", errno=failed.errno) from None
        try:
            more, _ = tcp.attempt(patience)
        except Failed as failed:
            raise Failed(f"{address} answers pings; TCP: {failed}", errno=failed.errno) from None
        return milliseconds + more, f"{address} by ping and TCP"

    return Probe(
        what="host",
        family=family,
        sender=sender,
        target=receiver.name,
        attempt=attempt,
        address=address,
        receiver=receiver,
    )


def mtu_of_path(
    family: Family, sender: End, target: str, address: str, receiver: End | None = None, after: str = "ping"
) -> Probe:
    """A probe of the path MTU. It runs only if the probe `after` has shown that small packets pass."""
    return Probe(
        what="mtu",
        family=family,
        sender=sender,
        target=target,
        attempt=lambda patience: path_mtu_of(sender, family, address, patience),
        address=address,
        receiver=receiver,
        needs=(after, family, sender.name, target),
    )


def port_of(what: str, family: Family, sender: End, receiver: End, address: str, port: int) -> Probe:
    """A probe of a host port that is forwarded to a container."""

    def attempt(patience: float) -> tuple[float, str]:
        with TcpListener.of(receiver, family, CONTAINER_PORT) as listener:
            milliseconds, peer = exchange(sender.namespace, family, (address, port), listener, patience)
        return milliseconds, f"seen as {peer}"

    return Probe(
        what=what,
        family=family,
        sender=sender,
        target=f"[{address}]:{port}" if family == "ipv6" else f"{address}:{port}",
        attempt=attempt,
        address=address,
        receiver=receiver,
    )


def skipped(what: str, family: Family, sender: End, target: str, why: str) -> Probe:
    def attempt(_: float) -> tuple[float, str]:
        raise Skipped(why)

    return Probe(what=what, family=family, sender=sender, target=target, attempt=attempt)


ARRIVED = "spoofing-passes"
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_KINDS = {"ipv4": 0x0800, "ipv6": 0x86DD}
_EVERYWHERE = {"ipv4": "0.0.0.0", "ipv6": "::"}
_AGAIN = 0.2


def probe_spoofing(sender: End, receiver: End, family: Family, patience: float) -> tuple[float, str]:
    """Milliseconds until the honest packet arrived, and the detail. Raises `Failed` if the forged one did."""
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
                raise Failed(f"a packet with the forged source address {strange} arrived", code=ARRIVED)
            if arrived == b"honest":
                return (time.monotonic() - begun) * 1000, f"nothing from {strange} arrives"
    raise Skipped("a packet with the right source address did not arrive either")


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
    """A neighbour's address, which another container may have."""
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
    body = _UDP.pack(40000, port, size, checksum(pseudo + body) or 0xFFFF) + content
    if len(addresses) == 8:
        head = _IPV4.pack(
            0x45, 0, _IPV4.size + size, 0, 0, 64, socket.IPPROTO_UDP, 0, addresses[:4], addresses[4:]
        )
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    else:
        head = _IPV6.pack(6 << 28, size, socket.IPPROTO_UDP, 64, addresses[:16], addresses[16:])
    return head + body
