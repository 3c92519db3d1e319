"""The MAC of an address on a link, and where a bridge or VXLAN sends a MAC."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from ..errors import ABSENT, Conflict, Difference, InvalidObject, KernelError, Refused, compare, missing
from ..namespace import Namespace
from ..netlink import link
from ..netlink import neighbour as wire
from ..netlink.connection import NetlinkConnection
from ..netlink.message import APPEND, CREATE, EXCLUSIVE, REPLACE
from ..values import family_of, packed_ip, require_link_name, require_mac, require_range, shown_ip
from .base import LinkName, Object, Scope, Undo
from .link import find, flags_of, name_of
from .route import PROTOCOL

_ZERO_MAC = "00:00:00:00:00:00"


class Neighbour(Object, frozen=True, tag="neighbour"):
    """A permanent entry: the MAC of an address. Without a MAC, the host answers for the address (proxy)."""

    link: str
    address: str
    mac: str | None = None

    def __post_init__(self) -> None:
        require_link_name(self.link)
        packed_ip(self.address)
        require_mac(self.mac)

    @property
    def title(self) -> str:
        proxy = "proxy " if self.mac is None else ""
        return f"{proxy}neighbour {self.address} on {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: NetlinkConnection) -> bytes:
        packed = packed_ip(self.address)
        index = connection.index(self.link)
        # The kernel deletes a proxy that is not permanent when the link loses its carrier.
        return wire.build(
            family_of(packed),
            index,
            address=packed,
            mac=self.mac,
            state=wire.PERMANENT,
            flags=wire.PROXY if self.mac is None else 0,
            protocol=PROTOCOL,
        )

    def apply(self, scope: Scope) -> Undo | None:
        # The kernel accepts a proxy that exists already, without an error.
        if self.mac is None and not self.check(scope):
            return None
        if self.mac is not None:
            self._require_neighbours(scope.at(self.on))
        return self._create(scope, wire.NEW, self._request)

    def _require_neighbours(self, namespace: Namespace) -> None:
        """Refuses links with one far end or none, which use no MACs: the kernel keeps one entry for all."""
        try:
            flags = flags_of(namespace, self.link)
        except Refused as refused:
            raise refused.during(f"cannot add {self.label}") from None
        if flags & (link.LOOPBACK | link.POINT_TO_POINT):
            raise KernelError(f"cannot add {self.label}: the link has no neighbours", errno=errno.EINVAL)

    def _keep(self, scope: Scope) -> Undo | None:
        """Replaces an entry that the kernel learned, but not one that a program set."""
        found = self._find(scope)
        if found is not None and (found.state & (wire.PERMANENT | wire.NOARP) or found.flags & wire.LEARNED):
            return super()._keep(scope)
        return self._create(scope, wire.NEW, self._request, CREATE | REPLACE)

    def check(self, scope: Scope) -> list[Difference]:
        found = self._find(scope)
        if found is None:
            return missing(self.label)
        if self.mac is None:
            return []
        return compare(
            self.label,
            ("mac", self.mac, found.mac),
            ("state", "permanent", _shown_state(found)),
        )

    def _find(self, scope: Scope) -> wire.NeighbourRecord | None:
        connection = scope.at(self.on).route
        packed = packed_ip(self.address)
        try:
            index = connection.index(self.link)
            if self.mac is None:
                listed = connection.dump(wire.GET, wire.proxies(family_of(packed)))
                proxies = (wire.decode(payload) for payload in listed if packed in payload)
                return next((one for one in proxies if (one.index, one.address) == (index, packed)), None)
            payload = connection.ask(wire.GET, wire.build(family_of(packed), index, address=packed))
        except Refused as refused:
            if refused.errno in ABSENT:
                return None
            raise
        return None if payload is None else wire.decode(payload)

    def remove(self, scope: Scope) -> None:
        """Removes only our own entry; an equal one of another program stays."""
        found = self._find(scope)
        if found is None or (self.mac is not None and not found.state & wire.PERMANENT):
            return
        if found.protocol != PROTOCOL and found.mac == self.mac:
            return
        if self.mac is not None and found.mac != self.mac:
            raise Conflict(self.check(scope))
        self._delete(scope, wire.DELETE, self._request)


class Forwarding(Object, frozen=True, tag="forwarding"):
    """The place of a MAC: behind a bridge's port, or, with `via`, at a VXLAN's far end.

    A VXLAN sends frames for unknown MACs to every far end of the MAC 00:00:00:00:00:00.
    """

    link: str
    mac: str
    via: str | None = None
    vlan: int | None = None

    def __post_init__(self) -> None:
        require_link_name(self.link)
        if self.mac != _ZERO_MAC:
            require_mac(self.mac)
        elif self.via is None:
            raise InvalidObject(f"{self.label}: {_ZERO_MAC} needs a far end")
        if self.via is not None:
            packed_ip(self.via)
        require_range("VLAN", self.vlan, 1, 4094)

    @property
    def title(self) -> str:
        via = "" if self.via is None else f" via {self.via}"
        vlan = "" if self.vlan is None else f" vlan {self.vlan}"
        return f"forwarding {self.mac}{via}{vlan} on {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: NetlinkConnection) -> bytes:
        far = None if self.via is None else packed_ip(self.via)
        return wire.build(
            wire.AF_BRIDGE,
            connection.index(self.link),
            address=far,
            mac=self.mac,
            vlan=self.vlan,
            state=wire.NOARP if far is None else wire.PERMANENT,
            flags=wire.MASTER if far is None else wire.SELF,
        )

    def apply(self, scope: Scope) -> Undo | None:
        differences = self.check(scope)
        if not differences:
            return None
        if any(found.found == "learned" for found in differences):
            return self._create(scope, wire.NEW, self._request, CREATE | REPLACE)
        if differences[0].what == "different":
            raise Conflict(differences)
        how = APPEND if self.mac == _ZERO_MAC else EXCLUSIVE
        return self._create(scope, wire.NEW, self._request, CREATE | how)

    def _keep(self, scope: Scope) -> Undo | None:
        """The bridge has the MAC behind another port: a learned entry is replaced, a set one is not."""
        namespace = scope.at(self.on)
        port = find(namespace, self.link)
        listed = map(wire.decode, namespace.route.dump(wire.GET, wire.everything(wire.AF_BRIDGE)))
        holders = [
            one
            for one in listed
            if (one.mac, one.master) == (self.mac, port and port.master)
            and (self.vlan is None or one.vlan == self.vlan)
        ]
        if any(_is_set(one) for one in holders) or not holders:
            place = next((name_of(namespace, one.index) for one in holders if _is_set(one)), "another")
            raise Conflict(compare(self.label, ("port", self.link, place)))
        return self._create(scope, wire.NEW, self._request, CREATE | REPLACE)

    def check(self, scope: Scope) -> list[Difference]:
        found = self._find(scope)
        if not found:
            return missing(self.label)
        wanted = None if self.via is None else packed_ip(self.via)
        if self.mac == _ZERO_MAC:
            ours = (one for one in found if one.address == wanted and one.port is None and one.vni is None)
            return [] if any(ours) else missing(self.label)
        one = found[0]
        far = None if one.address is None else shown_ip(one.address)
        return compare(
            self.label,
            ("far end", None if wanted is None else shown_ip(wanted), far),
            ("port", None, one.port),
            ("VNI", None, one.vni),
            ("state", "static", self._state(one)),
        )

    def _state(self, entry: wire.NeighbourRecord) -> str:
        if self.via is None and entry.state & wire.PERMANENT:
            return "the port's own"
        return "static" if _is_set(entry) else "learned"

    def _find(self, scope: Scope) -> list[wire.NeighbourRecord]:
        connection = scope.at(self.on).route
        try:
            index = connection.index(self.link)
        except Refused as refused:
            if refused.errno in ABSENT:
                return []
            raise
        mac = bytes.fromhex(self.mac.replace(":", ""))
        listed = connection.dump(wire.GET, wire.forwarding_of(index))
        return [
            one
            # Decoding the thousands of other entries of a port is not worth it.
            for one in (wire.decode(payload) for payload in listed if mac in payload)
            if (one.index, one.mac) == (index, self.mac)
            and (self.vlan is None or one.vlan == self.vlan)
            and ((one.master is None) if self.via is not None else (one.master is not None))
        ]

    def remove(self, scope: Scope) -> None:
        if self._is_there(scope):
            self._delete(scope, wire.DELETE, self._request)


def _shown_state(entry: wire.NeighbourRecord) -> str:
    if entry.state & wire.PERMANENT:
        return "permanent"
    return "set without ARP" if entry.state & wire.NOARP else "learned"


def _is_set(entry: wire.NeighbourRecord) -> bool:
    """Says whether a program set the entry, rather than the kernel learned it."""
    return bool(entry.state & (wire.PERMANENT | wire.NOARP)) and not entry.flags & wire.LEARNED
