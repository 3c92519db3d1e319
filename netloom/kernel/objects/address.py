"""An address of a link."""

from __future__ import annotations

from collections.abc import Iterable

from ..difference import Difference, compare, missing
from ..errors import ABSENT, Refused
from ..netlink import address as wire
from ..netlink.connection import Connection
from ..values import family_of, packed_cidr, require_link_name, shown_ip
from .base import LinkName, Object, Scope, Undo


class Address(Object, frozen=True, tag="address"):
    """`address` with its prefix, as in 10.0.0.2/24. IPv6 addresses work at once, without DAD.

    With `prefix_route` off, the kernel makes no route to the prefix.
    """

    link: str
    address: str
    prefix_route: bool = True

    def __post_init__(self) -> None:
        require_link_name(self.link)
        packed_cidr(self.address)

    @property
    def title(self) -> str:
        return f"address {self.address} on {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: Connection) -> bytes:
        packed, prefix = packed_cidr(self.address)
        flags = wire.NODAD if len(packed) == 16 else 0
        if not self.prefix_route:
            flags |= wire.NOPREFIXROUTE
        return wire.build(connection.index(self.link), family_of(packed), packed, prefix, flags=flags)

    def apply(self, scope: Scope) -> Undo | None:
        return self._create(scope, wire.NEW, self._request)

    def check(self, scope: Scope) -> list[Difference]:
        connection = scope.at(self.on).route
        packed, prefix = packed_cidr(self.address)
        try:
            listed = connection.dump(wire.GET, wire.of_link(connection.index(self.link), family_of(packed)))
        except Refused as refused:
            if refused.errno in ABSENT:
                return missing(self.label)
            raise
        same = [one for one in map(wire.decode, listed) if one.address == shown_ip(packed)]
        if not same:
            return missing(self.label)
        found = next((one for one in same if one.prefix == prefix), same[0])
        return compare(
            self.label,
            ("prefix length", prefix, found.prefix),
            ("prefix route", self.prefix_route, not found.flags & wire.NOPREFIXROUTE),
            ("state", "usable", "a duplicate" if found.flags & wire.FAILED else "usable"),
        )

    def remove(self, scope: Scope) -> None:
        self._delete(scope, wire.DELETE, self._request)
