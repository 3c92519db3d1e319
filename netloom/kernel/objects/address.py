"""An address of a link."""

from __future__ import annotations

import errno
import platform
import re
import socket
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache

from ..errors import ABSENT, Conflict, Difference, InvalidObject, Refused, compare, missing
from ..namespace import Namespace
from ..netlink import address as wire
from ..netlink.connection import NetlinkConnection
from ..values import family_of, packed_cidr, require_link_name, shown_ip
from .base import LinkName, Object, Scope, Undo
from .link import name_of
from .route import PROTOCOL
from .sysctl import Sysctl, written


class Address(Object, frozen=True, tag="address"):
    """`address` with its prefix, as in 10.0.0.2/24. IPv6 addresses work at once, without DAD.

    With `prefix_route` off, the kernel makes no route to the prefix. With `switch_on`, an IPv6 address
    enables IPv6 on its link if that is disabled.
    """

    link: str
    address: str
    prefix_route: bool = True
    switch_on: bool = False

    def __post_init__(self) -> None:
        require_link_name(self.link)
        packed, _ = packed_cidr(self.address)
        if not any(packed):
            raise InvalidObject(f"{self.address} is not a valid link address")

    @property
    def title(self) -> str:
        return f"address {self.address} on {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: NetlinkConnection) -> bytes:
        packed, prefix = packed_cidr(self.address)
        flags = wire.NODAD if len(packed) == 16 else 0
        if not self.prefix_route:
            flags |= wire.NOPREFIXROUTE
        index = connection.index(self.link)
        return wire.build(index, family_of(packed), packed, prefix, flags=flags, protocol=PROTOCOL)

    def apply(self, scope: Scope) -> Undo | None:
        try:
            return self._create(scope, wire.NEW, self._request)
        except Refused as refused:
            if refused.errno != errno.EACCES or not self.switch_on:
                raise
        return self._apply_where_ipv6_is_off(scope)

    def _apply_where_ipv6_is_off(self, scope: Scope) -> Undo | None:
        switch = Sysctl(f"net/ipv6/conf/{self.link}/disable_ipv6", "0", on=self.on).apply(scope)
        try:
            made = self._create(scope, wire.NEW, self._request)
        except BaseException:
            if switch is not None:
                switch()
            raise

        def undo() -> None:
            for step in (made, switch):
                if step is not None:
                    step()

        return undo

    def check(self, scope: Scope) -> list[Difference]:
        return self.compared(self._find(scope))

    def _find(self, scope: Scope) -> wire.AddressRecord | None:
        connection = scope.at(self.on).route
        packed, prefix = packed_cidr(self.address)
        try:
            listed = _candidates(connection, connection.index(self.link), packed)
        except Refused as refused:
            if refused.errno in ABSENT:
                return None
            raise
        same = [one for one in map(wire.decode, listed) if one.address == shown_ip(packed)]
        return next((one for one in same if one.prefix == prefix), next(iter(same), None))

    def compared(self, found: wire.AddressRecord | None) -> list[Difference]:
        if found is None:
            return missing(self.label)
        return compare(
            self.label,
            ("prefix length", packed_cidr(self.address)[1], found.prefix),
            ("peer", None, found.peer),
            ("lifetime", "for ever", "for ever" if found.flags & wire.PERMANENT else "limited"),
            ("prefix route", self.prefix_route, not found.flags & wire.NOPREFIXROUTE),
            ("state", "usable", "a duplicate" if found.flags & wire.FAILED else "usable"),
        )

    def remove(self, scope: Scope) -> None:
        """Removes only our own address; an equal one of another program stays."""
        found = self._find(scope)
        if found is None or (found.protocol != PROTOCOL and _kernel_tells_who()):
            return
        differences = [one for one in self.compared(found) if one.field != "state"]
        # With another prefix length it is another address: ours is already removed.
        if any(one.field == "prefix length" for one in differences):
            return
        if differences:
            raise Conflict(differences)
        with self._others_kept(scope.at(self.on)):
            self._delete(scope, wire.DELETE, self._request)

    def _others_kept(self, namespace: Namespace) -> AbstractContextManager[None]:
        """Keeps the kernel from deleting all addresses of a subnet with the first IPv4 address of it."""
        if ":" in self.address:
            return nullcontext()
        try:
            index = namespace.route.index(self.link)
            listed = namespace.route.dump(wire.GET, wire.of_link(index, socket.AF_INET))
        except Refused:  # the link was just deleted, with all its addresses
            return nullcontext()
        if not any(map(wire.is_secondary, listed)):
            return nullcontext()
        return written(namespace, f"net/ipv4/conf/{name_of(namespace, index)}/promote_secondaries", "1")


def _candidates(connection: NetlinkConnection, index: int, packed: bytes) -> list[bytes]:
    """Yields what may be the address: decoding the thousands of others on a link is not worth it."""
    if family_of(packed) == socket.AF_INET6:
        found = connection.ask(wire.GET, wire.of_link(index, socket.AF_INET6, packed))
        return [] if found is None else [found]
    listed = connection.dump(wire.GET, wire.of_link(index, socket.AF_INET))
    return [payload for payload in listed if packed in payload]


@cache
def _kernel_tells_who() -> bool:
    """Says whether addresses have a protocol, like routes: from Linux 5.18 on."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    return release is None or (int(release[1]), int(release[2])) >= (5, 18)
