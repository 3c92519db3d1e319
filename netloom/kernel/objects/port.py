"""Links as ports of a bridge or members of a VRF."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import ClassVar

from msgspec import structs

from ..errors import ABSENT, Conflict, Difference, Refused, Unsupported, compare, missing
from ..netlink import bridge_vlan, link
from ..netlink.connection import NetlinkConnection
from ..netlink.message import NOTHING
from ..values import require_link_name, require_range
from .base import LinkName, Object, Scope, Undo
from .link import FLAG, Data, find, is_ours, name_for


class _Member(Object, frozen=True, kw_only=True):
    """A link that has a master. A link with another master is not moved."""

    master_kind: ClassVar[str]
    table: ClassVar[tuple[Data, ...]] = ()

    @property
    def _link(self) -> str:
        raise NotImplementedError

    @property
    def _master(self) -> str:
        raise NotImplementedError

    def __post_init__(self) -> None:
        require_link_name(self._link)
        require_link_name(self._master)

    @property
    def title(self) -> str:
        return f"{self._link} in {self.master_kind} {self._master}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self._link),)

    def _port_data(self) -> bytes:
        return b"".join(
            entry.form.build(entry.number, value)
            for entry in self.table
            if (value := getattr(self, entry.field)) is not None
        )

    def apply(self, scope: Scope) -> Undo | None:
        found = find(scope.at(self.on), self._link)
        if found is not None and found.master:
            return self._keep(scope)
        connection = scope.at(self.on).route
        try:
            index = connection.index(self._link)
            connection.change(
                link.SET, 0, link.change(index, link.properties(master=connection.index(self._master)))
            )
        except Refused as refused:
            raise refused.during(f"cannot put {self.label}") from None
        try:
            self._set_port(connection, index)
        except Refused as refused:
            connection.change(link.SET, 0, link.change(index, link.properties(master=0)))
            raise refused.during(f"cannot set up {self.label}") from None
        return lambda: self.remove(scope)

    def _set_port(self, connection: NetlinkConnection, index: int) -> None:
        data = self._port_data()
        if data:
            connection.change(link.NEW, 0, link.change_port(index, self.master_kind, data))

    def check(self, scope: Scope) -> list[Difference]:
        namespace = scope.at(self.on)
        found = find(namespace, self._link)
        if found is None or not found.master:
            return missing(self.label)
        differences = compare(
            self.label, ("master", self._master, name_for(namespace, found.master, self._master))
        )
        data = found.port or NOTHING
        return differences or compare(
            self.label,
            *(
                (entry.field, wanted, entry.form.read(data, entry.number))
                for entry in self.table
                if (wanted := getattr(self, entry.field)) is not None
            ),
        )

    def remove(self, scope: Scope) -> None:
        namespace = scope.at(self.on)
        found = find(namespace, self._link)
        if found is None or not found.master:
            return
        master = name_for(namespace, found.master, self._master)
        if master != self._master:
            raise Conflict(compare(self.label, ("master", self._master, master)))
        self._delete(scope, link.SET, lambda _: link.change(found.index, link.properties(master=0)))


class BridgePort(_Member, frozen=True, tag="bridge-port"):
    """With `isolated`, it only reaches ports that are not isolated; with `hairpin`, frames may return by
    their port.
    """

    link: str
    bridge: str
    hairpin: bool | None = None
    isolated: bool | None = None
    learning: bool | None = None
    flood: bool | None = None
    neighbour_suppression: bool | None = None

    master_kind: ClassVar[str] = "bridge"
    table: ClassVar[tuple[Data, ...]] = (
        Data("hairpin", 4, FLAG),
        Data("isolated", 33, FLAG),
        Data("learning", 8, FLAG),
        Data("flood", 9, FLAG),
        Data("neighbour_suppression", 32, FLAG),
    )

    @property
    def _link(self) -> str:
        return self.link

    @property
    def _master(self) -> str:
        return self.bridge

    def _keep(self, scope: Scope) -> Undo | None:
        """Sets the flags of our link if the process that made it a port ended before it set them."""
        found = find(scope.at(self.on), self.link)
        differences = self.check(scope)
        untouched = all(_DEFAULTS.get(one.field or "") == one.found for one in differences)
        if not differences or found is None or not is_ours(found) or not untouched:
            return super()._keep(scope)
        connection = scope.at(self.on).route
        self._set_port(connection, found.index)
        former = dict.fromkeys(_DEFAULTS)
        former |= {one.field: one.found == "on" for one in differences if one.field}
        return lambda: structs.replace(self, **former)._set_port(connection, found.index)


# The kernel's defaults for a port, as differences show them.
_DEFAULTS = {
    "hairpin": "off", "isolated": "off", "learning": "on", "flood": "on", "neighbour_suppression": "off",
}  # fmt: skip


class VrfMember(_Member, frozen=True, tag="vrf-member"):
    link: str
    vrf: str

    master_kind: ClassVar[str] = "vrf"

    @property
    def _link(self) -> str:
        return self.link

    @property
    def _master(self) -> str:
        return self.vrf


class PortVlan(Object, frozen=True, tag="port-vlan"):
    """A VLAN of a port of a VLAN-aware bridge, or, with `itself`, of the bridge as a host.

    `pvid`: incoming untagged frames belong to it. `untagged`: its frames are sent without a tag.
    """

    link: str
    vlan: int
    pvid: bool = False
    untagged: bool = False
    itself: bool = False

    feature: ClassVar[str] = "bridge-vlan"

    def __post_init__(self) -> None:
        require_link_name(self.link)
        require_range("VLAN", self.vlan, 1, 4094)

    @property
    def title(self) -> str:
        return f"vlan {self.vlan} on {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: NetlinkConnection) -> bytes:
        return bridge_vlan.build(
            connection.index(self.link),
            bridge_vlan.Membership(self.vlan, self.pvid, self.untagged),
            itself=self.itself,
        )

    def apply(self, scope: Scope) -> Undo | None:
        if self._is_there(scope):
            return None
        former = self._former_pvid(scope) if self.pvid else None
        try:
            undo = self._create(scope, bridge_vlan.NEW, self._request, 0)
        except Refused as refused:
            # The kernel answers the same for a link that is not a port.
            found = find(scope.at(self.on), self.link)
            if refused.errno == errno.EOPNOTSUPP and found and "bridge" in (found.kind, found.port_kind):
                raise Unsupported(
                    f"cannot add {self.label}: this kernel lacks {self.feature}", feature=self.feature
                ) from None
            raise
        if former is None:
            return undo

        def restore() -> None:
            self.remove(scope)
            connection = scope.at(self.on).route
            request = bridge_vlan.build(connection.index(self.link), former, itself=self.itself)
            connection.change(bridge_vlan.NEW, 0, request)

        return restore

    def _former_pvid(self, scope: Scope) -> bridge_vlan.Membership | None:
        """Returns the former PVID: a port has one, and the kernel moves the mark from the old VLAN."""
        connection = scope.at(self.on).route
        try:
            members = bridge_vlan.of_link(connection, connection.index(self.link))
        except Refused as refused:
            if refused.errno in ABSENT:
                return None
            raise
        return next((one for one in members if one.pvid), None)

    def check(self, scope: Scope) -> list[Difference]:
        connection = scope.at(self.on).route
        try:
            index = connection.index(self.link)
        except Refused as refused:
            if refused.errno in ABSENT:
                return missing(self.label)
            raise
        found = next((one for one in bridge_vlan.of_link(connection, index) if one.vlan == self.vlan), None)
        if found is None:
            return missing(self.label)
        return compare(
            self.label, ("pvid", self.pvid, found.pvid), ("untagged", self.untagged, found.untagged)
        )

    def remove(self, scope: Scope) -> None:
        if self._is_there(scope):
            self._delete(scope, bridge_vlan.DELETE, self._request)
