"""Links that rtnetlink creates: what all types have in common.

A type is a declaration: its fields, and a table of the attribute for each field. Whether the link is up is an
object of its own (`Up`), because rules that protect a link must be in force before it is up.
"""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, ClassVar, NamedTuple

from ..errors import Conflict, Difference, KernelError, Refused, Unsupported, compare, missing
from ..namespace import Namespace
from ..netlink import link, message
from ..netlink.connection import NetlinkConnection
from ..netlink.message import CREATE, EXCLUSIVE, NOTHING, Attributes
from ..values import require_link_name, require_mac, require_range
from .base import LinkDeletion, LinkName, Object, Scope, Undo

# Links of this group ("nl") are ours: `ip link show group 1852571648`. Reapers, which delete links by group,
# use other groups with the same upper half.
GROUP = 0x6E6C0000

_SIOCGIFFLAGS = 0x8913
_IFREQ = Struct("=16sH22x")


class AttributeForm(NamedTuple):
    build: Callable[[int, Any], bytes]
    read: Callable[[Attributes, int], Any]


U16 = AttributeForm(message.u16, Attributes.u16)
U16BE = AttributeForm(message.u16be, lambda found, number: int.from_bytes(found.raw(number) or b"", "big"))
U32 = AttributeForm(message.u32, Attributes.u32)
FLAG = AttributeForm(
    lambda number, value: message.u8(number, int(value)), lambda found, number: bool(found.u8(number))
)


class Data(NamedTuple):
    """A field of a link type, with its attribute. With `identity`, a link with another value is not ours."""

    field: str
    number: int
    form: AttributeForm
    identity: bool = False


class LinkObject(Object, frozen=True, kw_only=True):
    """A link by itself. An existing link of its name is kept if equal, and removed if netloom made it."""

    mac: str | None = None
    mtu: int | None = None
    txqlen: int | None = None

    kind: ClassVar[str]
    table: ClassVar[tuple[Data, ...]] = ()

    # The name is the first field of every type, so that it can be given by position.
    @property
    def _name(self) -> str:
        name: str = self.name  # type: ignore[attr-defined]
        return name

    def __post_init__(self) -> None:
        require_link_name(self._name)
        require_mac(self.mac)
        require_range("mtu", self.mtu, 68, 65536)
        require_range("txqlen", self.txqlen, 0, 1 << 31)

    @property
    def title(self) -> str:
        return f"{self.kind} {self._name}"

    def makes(self) -> Iterable[LinkName]:
        return ((self.on, self._name),)

    def rests_on(self) -> Iterable[LinkName]:
        parent = self.parent_name()
        return () if parent is None else ((self.on, parent),)

    def parent_name(self) -> str | None:
        """The parent link, for types that have one."""
        return None

    def apply(self, scope: Scope) -> Undo | None:
        connection = scope.at(self.on).route
        try:
            connection.change(link.NEW, CREATE | EXCLUSIVE, self.creation(scope))
        except Refused as refused:
            if refused.errno == errno.EEXIST:
                return self._keep_or_explain(scope, refused)
            raise self.explained(refused) from None
        return lambda: self.remove(scope)

    def _keep_or_explain(self, scope: Scope, refused: Refused) -> Undo | None:
        """The kernel also says "exists" for a VNI or VLAN of another link, and for a veth's peer."""
        found = find(scope.at(self.on), self._name)
        if found is None:
            taken = refused.explanation or "taken by another link"
            raise Conflict(compare(self.label, ("place", "free", taken)))
        if self._keep(scope) is None and is_ours(found) and found.group != GROUP:
            # A process began to remove it and did not finish.
            connection = scope.at(self.on).route
            connection.change(link.SET, 0, link.change(found.index, link.properties(group=GROUP)))
        return None

    def creation(self, scope: Scope) -> bytes:
        return link.create(self.kind, self._common(scope.at(self.on).route), self.data(scope))

    def _common(self, connection: NetlinkConnection) -> bytes:
        parent = self.parent_name()
        return link.properties(
            name=self._name,
            mac=self.mac,
            mtu=self.mtu,
            txqlen=self.txqlen,
            parent=None if parent is None else connection.index(parent),
            group=GROUP,
        )

    def data(self, scope: Scope) -> bytes:
        del scope
        return b"".join(
            entry.form.build(entry.number, value)
            for entry in self.table
            if (value := getattr(self, entry.field)) is not None
        )

    def explained(self, refused: Refused) -> KernelError:
        if refused.errno == errno.EOPNOTSUPP:
            said = f" ({refused.explanation})" if refused.explanation else ""
            feature = self.feature_needed(refused)
            return Unsupported(
                f"cannot create {self.label}: this kernel lacks {feature}{said}", feature=feature
            )
        return refused.during(f"cannot create {self.label}")

    def feature_needed(self, refused: Refused) -> str:
        """The feature that a kernel needs for such a link."""
        del refused
        return self.feature or self.kind

    def check(self, scope: Scope) -> list[Difference]:
        found = find(scope.at(self.on), self._name)
        if found is None:
            return missing(self.label)
        return self.ownership_conflicts(found) or self.plan_differences(found, scope)

    def ownership_conflicts(self, found: link.Link) -> list[Difference]:
        """Returns why an existing link of our name is not ours."""
        if found.name != self._name:  # another link has our name as an alternative name
            return compare(self.label, ("name", self._name, found.name))
        if found.kind != self.kind:
            return compare(self.label, ("kind", self.kind, found.kind or "none"))
        if self.mac is not None and found.mac != self.mac:
            return compare(self.label, ("mac", self.mac, found.mac))
        return self._compared(found, (entry for entry in self.table if entry.identity))

    def plan_differences(self, found: link.Link, scope: Scope) -> list[Difference]:
        """Returns how a link of ours differs from the plan."""
        parent = self.parent_name()
        fields: tuple[tuple[str, object, object], ...] = (
            ("mtu", self.mtu, found.mtu),
            ("txqlen", self.txqlen, found.txqlen),
            ("parent", parent, parent and name_for(scope.at(self.on), found.parent, parent)),
        )
        given = (field for field in fields if field[1] is not None)
        return compare(self.label, *given) + self._compared(
            found, (entry for entry in self.table if not entry.identity)
        )

    def _compared(self, found: link.Link, entries: Iterable[Data]) -> list[Difference]:
        data = found.data or NOTHING
        fields = []
        for entry in entries:
            wanted = getattr(self, entry.field)
            if wanted is not None:
                fields.append((entry.field, wanted, entry.form.read(data, entry.number)))
        return compare(self.label, *fields)

    def remove(self, scope: Scope) -> LinkDeletion | None:
        namespace = scope.at(self.on)
        found = find(namespace, self._name)
        if found is None:
            return None
        strange = self.ownership_conflicts(found)
        if not strange and not is_ours(found):
            strange = compare(self.label, ("owner", "netloom", f"group {found.group}"))
        if strange:
            raise Conflict(strange)
        return LinkDeletion(namespace, found.index, self.label)


def is_ours(found: link.Link | link.LinkEntry) -> bool:
    """Says whether netloom made it."""
    return (found.group or 0) >> 16 == GROUP >> 16


def find(namespace: Namespace, name: str) -> link.Link | None:
    """Returns a link by name."""
    try:
        payload = namespace.route.ask(link.GET, link.get_by_name(name))
    except Refused as refused:
        if refused.errno in (errno.ENODEV, errno.EINVAL):
            return None
        raise
    return None if payload is None else link.decode(payload)


def link_names(namespace: Namespace) -> dict[str, link.LinkEntry]:
    """Returns our links by name in one query, to compare many; those being removed are included.

    The kernel has no query for a group, so it lists all links: 9 ms for 1,000.
    """
    listed = map(link.decode_entry, namespace.route.dump(link.GET, link.everything()))
    return {found.name: found for found in listed if is_ours(found)}


def flags_of(namespace: Namespace, name: str) -> int:
    """Returns a link's flags by an ioctl, which is cheaper than a query for the link."""
    try:
        answer = fcntl.ioctl(namespace.route, _SIOCGIFFLAGS, _IFREQ.pack(name.encode(), 0))
    except OSError as cause:
        raise Refused(cause.errno or errno.ENODEV, context=f"link {name}") from None
    return int(_IFREQ.unpack(answer)[1])


def name_for(namespace: Namespace, index: int | None, wanted: str) -> str | None:
    """Returns the name of the link with an index: the wanted name, if that is one of the link's names."""
    try:
        if index and namespace.route.index(wanted) == index:
            return wanted
    except Refused:
        pass
    return name_of(namespace, index)


def name_of(namespace: Namespace, index: int | None) -> str | None:
    """Returns the name of the link with an index, for people."""
    if not index:
        return None
    try:
        payload = namespace.route.ask(link.GET, link.get(index))
    except Refused:
        return f"link {index}"
    return None if payload is None else link.decode(payload).name
