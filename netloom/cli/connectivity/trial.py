"""One thing that is tried: between whom, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from . import path_mtu
from .echo import ping
from .ends import End
from .failed import Failed, Skipped
from .host_port import CONTAINER_PORT
from .report import Family
from .stream import Listener, exchange

# Milliseconds, and what is worth saying. Raises `Failed` or `Skipped`.
Attempt: TypeAlias = Callable[[float], tuple[float, str]]
Key: TypeAlias = tuple[str, str, str, str]


class Trial(Struct, frozen=True, kw_only=True, eq=False):
    """`needs` must have passed before it, and if `doubts` failed, it is not waited for as long.

    `address` is where it goes to, and `receiver` who has it in the end.
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


def ping_of(family: Family, sender: End, receiver: End) -> Trial:
    address = receiver.addresses[family]
    return Trial(
        what="ping",
        family=family,
        sender=sender,
        target=receiver.name,
        attempt=lambda patience: (ping(sender.namespace, family, address, patience), ""),
        address=address,
        receiver=receiver,
    )


def tcp_of(family: Family, sender: End, receiver: End, what: str = "tcp", *, doubt: bool = True) -> Trial:
    address = receiver.addresses[family]

    def attempt(patience: float) -> tuple[float, str]:
        with Listener.of(receiver, family) as listener:
            milliseconds, _ = exchange(sender.namespace, family, (address, listener.port), listener, patience)
        return milliseconds, ""

    return Trial(
        what=what,
        family=family,
        sender=sender,
        target=receiver.name,
        attempt=attempt,
        address=address,
        receiver=receiver,
        doubts=("ping", family, sender.name, receiver.name) if doubt else None,
    )


def both_of(family: Family, sender: End, receiver: End) -> Trial:
    """Ping and TCP, with the host at one end."""
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

    return Trial(
        what="host",
        family=family,
        sender=sender,
        target=receiver.name,
        attempt=attempt,
        address=address,
        receiver=receiver,
    )


def mtu_of_way(
    family: Family, sender: End, target: str, address: str, receiver: End | None = None, after: str = "ping"
) -> Trial:
    """Tried if something small passes, which `after` has shown."""
    return Trial(
        what="mtu",
        family=family,
        sender=sender,
        target=target,
        attempt=lambda patience: path_mtu.measure(sender, family, address, patience),
        address=address,
        receiver=receiver,
        needs=(after, family, sender.name, target),
    )


def port_of(what: str, family: Family, sender: End, receiver: End, address: str, port: int) -> Trial:
    """A call of a port of the host, which leads to a container."""

    def attempt(patience: float) -> tuple[float, str]:
        with Listener.of(receiver, family, CONTAINER_PORT) as listener:
            milliseconds, peer = exchange(sender.namespace, family, (address, port), listener, patience)
        return milliseconds, f"seen as {peer}"

    return Trial(
        what=what,
        family=family,
        sender=sender,
        target=f"[{address}]:{port}" if family == "ipv6" else f"{address}:{port}",
        attempt=attempt,
        address=address,
        receiver=receiver,
    )


def skipped(what: str, family: Family, sender: End, target: str, why: str) -> Trial:
    def attempt(_: float) -> tuple[float, str]:
        raise Skipped(why)

    return Trial(what=what, family=family, sender=sender, target=target, attempt=attempt)
