"""Link types that need no more than a declaration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from ..errors import Difference, InvalidObject, Refused, Unsupported, compare
from ..netlink import link as wire
from ..netlink import message
from ..netlink.link import Link
from ..netlink.message import NOTHING
from ..values import packed_ip, require_link_name, require_range, shown_ip
from .base import LinkName, Scope, Undo
from .link import FLAG, U16, U16BE, U32, AttributeForm, Data, LinkObject, name_for


class Dummy(LinkObject, frozen=True, tag="dummy"):
    """A link that drops everything: it only holds addresses."""

    name: str

    kind: ClassVar[str] = "dummy"


class Ifb(LinkObject, frozen=True, tag="ifb"):
    """A link that queues the incoming packets of another link."""

    name: str

    kind: ClassVar[str] = "ifb"


class Bridge(LinkObject, frozen=True, tag="bridge"):
    """A bridge. With `vlan_filtering`, its ports carry VLANs (`PortVlan`); `default_pvid` 0 means none."""

    name: str
    vlan_filtering: bool | None = None
    default_pvid: int | None = None
    stp: bool | None = None
    multicast_snooping: bool | None = None
    ageing: int | None = None

    kind: ClassVar[str] = "bridge"
    table: ClassVar[tuple[Data, ...]] = (
        # Off is the default, and some kernels refuse the attribute.
        Data(
            "vlan_filtering",
            7,
            AttributeForm(lambda number, value: message.u8(number, 1) if value else b"", FLAG.read),
        ),
        Data("default_pvid", 39, U16),
        Data(
            "stp",
            5,
            AttributeForm(lambda number, value: message.u32(number, int(value)), lambda f, n: bool(f.u32(n))),
        ),
        Data("multicast_snooping", 23, FLAG),
        # In hundredths of a second on the wire.
        Data(
            "ageing",
            4,
            AttributeForm(lambda n, v: message.u32(n, v * 100), lambda f, n: (f.u32(n) or 0) // 100),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("default_pvid", self.default_pvid, 0, 4094)
        require_range("ageing", self.ageing, 0, 1_000_000)

    def apply(self, scope: Scope) -> Undo | None:
        undo = super().apply(scope)
        if undo is not None and self.default_pvid is not None:
            self._require_default_pvid(scope)
        if undo is not None and self.mtu is not None:
            self._pin_mtu(scope, self.mtu)
        return undo

    def _pin_mtu(self, scope: Scope, mtu: int) -> None:
        """Sets the MTU explicitly: otherwise the kernel changes a bridge's MTU with those of its ports."""
        connection = scope.at(self.on).route
        index = connection.index(self.name)
        try:
            for value in (mtu - 1 if mtu > 68 else mtu + 1, mtu):
                connection.change(wire.SET, 0, wire.change(index, wire.properties(mtu=value)))
        except BaseException as error:
            self._delete(scope, wire.DELETE, lambda _: wire.by_index(index))
            raise (self.explained(error) if isinstance(error, Refused) else error) from None

    def _require_default_pvid(self, scope: Scope) -> None:
        """Checks the PVID: a kernel without VLAN filtering accepts the number and ignores it."""
        if any(found.field == "default_pvid" for found in self.check(scope)):
            self._delete(scope, wire.DELETE, lambda connection: wire.by_index(connection.index(self.name)))
            raise Unsupported(
                f"cannot create {self.label}: this kernel lacks bridge-vlan", feature="bridge-vlan"
            )

    def feature_needed(self, refused: Refused) -> str:
        # A kernel with bridges does not explain what it refuses about one.
        return "bridge" if refused.explanation else "bridge-vlan"


class Vlan(LinkObject, frozen=True, tag="vlan"):
    """One VLAN of a parent link."""

    name: str
    parent: str
    id: int

    kind: ClassVar[str] = "vlan"
    table: ClassVar[tuple[Data, ...]] = (Data("id", 1, U16, identity=True),)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_link_name(self.parent)
        require_range("VLAN", self.id, 1, 4094)

    def parent_name(self) -> str | None:
        return self.parent


_MODES = {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}
_MODE_NAMES = {number: name for name, number in _MODES.items()}


class Macvlan(LinkObject, frozen=True, tag="macvlan"):
    """A link with a MAC of its own on a parent link."""

    name: str
    parent: str
    mode: Literal["private", "vepa", "bridge", "passthru"] = "bridge"

    kind: ClassVar[str] = "macvlan"
    table: ClassVar[tuple[Data, ...]] = (
        Data(
            "mode",
            1,
            AttributeForm(
                lambda number, value: message.u32(number, _MODES[value]),
                lambda found, number: _MODE_NAMES.get(found.u32(number) or 0, "another"),
            ),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_link_name(self.parent)
        if self.mode == "passthru" and self.mac is not None:
            raise InvalidObject(f"{self.label}: a link in passthru mode has the MAC of its parent")

    def parent_name(self) -> str | None:
        return self.parent


class Vrf(LinkObject, frozen=True, tag="vrf"):
    """A routing domain: only its table routes its members' packets."""

    name: str
    table_id: int

    kind: ClassVar[str] = "vrf"
    table: ClassVar[tuple[Data, ...]] = (Data("table_id", 1, U32, identity=True),)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("table", self.table_id, 1, 0xFFFFFFFF)


class Vxlan(LinkObject, frozen=True, tag="vxlan"):
    """Ethernet over UDP. Without `learning`, `Forwarding` entries say where it sends frames."""

    name: str
    vni: int
    local: str | None = None
    port: int = 4789
    learning: bool = False
    device: str | None = None

    kind: ClassVar[str] = "vxlan"
    table: ClassVar[tuple[Data, ...]] = (
        Data("vni", 1, U32, identity=True),
        Data("port", 15, U16BE),
        Data("learning", 7, FLAG),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("VNI", self.vni, 1, (1 << 24) - 1)
        require_range("port", self.port, 1, 65535)
        if self.local is not None:
            packed_ip(self.local)
        if self.device is not None:
            require_link_name(self.device)

    def rests_on(self) -> Iterable[LinkName]:
        return () if self.device is None else ((self.on, self.device),)

    def data(self, scope: Scope) -> bytes:
        data = super().data(scope)
        if self.local is not None:
            packed = packed_ip(self.local)
            data += message.raw(_LOCAL if len(packed) == 4 else _LOCAL6, packed)
        if self.device is not None:
            data += message.u32(_DEVICE, scope.at(self.on).route.index(self.device))
        return data

    def plan_differences(self, found: Link, scope: Scope) -> list[Difference]:
        data = found.data or NOTHING
        differences = super().plan_differences(found, scope)
        if self.local is not None:
            local = data.ip(_LOCAL) or data.ip(_LOCAL6)
            differences += compare(self.label, ("local", shown_ip(packed_ip(self.local)), local))
        if self.device is not None:
            device = name_for(scope.at(self.on), data.u32(_DEVICE), self.device)
            differences += compare(self.label, ("device", self.device, device))
        return differences


_LOCAL, _LOCAL6, _DEVICE = 4, 17, 3
