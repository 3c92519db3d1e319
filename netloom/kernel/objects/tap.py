"""A TAP device: a link whose other end is a program, such as a virtual machine monitor."""

from __future__ import annotations

import fcntl
import os
from struct import Struct
from typing import ClassVar

from ..errors import Difference, KernelError, Refused, Unsupported, compare
from ..netlink import link
from ..netlink.message import NOTHING
from ..values import require_range
from .base import Scope, Undo
from .link import GROUP, LinkObject, find

_CLONE = "/dev/net/tun"
_TUNSETIFF, _TUNSETPERSIST, _TUNSETOWNER, _TUNSETGROUP = 0x400454CA, 0x400454CB, 0x400454CC, 0x400454CE
_TAP, _NO_PI, _VNET_HDR, _MULTI_QUEUE, _EXCLUSIVE = 0x0002, 0x1000, 0x4000, 0x0100, 0x8000
_IFREQ = Struct("=16sH22x")
_OWNER, _GROUP, _TYPE, _PERSIST, _HEADER, _QUEUES = 1, 2, 3, 6, 5, 7


class Tap(LinkObject, frozen=True, tag="tap"):
    """A TAP device. It stays when the program ends. Besides root, `owner` and `group` may open it."""

    name: str
    multi_queue: bool = False
    vnet_hdr: bool = True
    owner: int | None = None
    group: int | None = None

    kind: ClassVar[str] = "tun"
    feature: ClassVar[str] = "tap"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("owner", self.owner, 0, 0xFFFFFFFE)
        require_range("group", self.group, 0, 0xFFFFFFFE)

    @property
    def title(self) -> str:
        return f"tap {self.name}"

    def apply(self, scope: Scope) -> Undo | None:
        if find(scope.at(self.on), self.name) is not None:
            return self._keep(scope)
        try:
            self._make(scope)
        except FileNotFoundError:
            raise Unsupported(
                f"cannot create {self.label}: there is no {_CLONE} (the tun driver)", feature=self.feature
            ) from None
        except OSError as cause:
            raise KernelError(
                f"cannot create {self.label}: {cause.strerror}", errno=cause.errno or 0
            ) from None
        return lambda: self.remove(scope)

    def _make(self, scope: Scope) -> None:
        """Creates it by ioctls, since rtnetlink cannot. It is tied to its descriptor until the last step
        makes it stay.
        """
        namespace = scope.at(self.on)
        with namespace.entered():
            fd = os.open(_CLONE, os.O_RDWR | os.O_CLOEXEC)
        try:
            flags = _TAP | _NO_PI | _EXCLUSIVE
            flags |= _VNET_HDR if self.vnet_hdr else 0
            flags |= _MULTI_QUEUE if self.multi_queue else 0
            fcntl.ioctl(fd, _TUNSETIFF, _IFREQ.pack(self.name.encode(), flags))
            if self.owner is not None:
                fcntl.ioctl(fd, _TUNSETOWNER, _as_int(self.owner))
            if self.group is not None:
                fcntl.ioctl(fd, _TUNSETGROUP, _as_int(self.group))
            self._set_properties(scope)
            fcntl.ioctl(fd, _TUNSETPERSIST, 1)
        finally:
            os.close(fd)

    def _set_properties(self, scope: Scope) -> None:
        common = link.properties(mac=self.mac, mtu=self.mtu, txqlen=self.txqlen, group=GROUP)
        connection = scope.at(self.on).route
        try:
            connection.change(link.SET, 0, link.change(connection.index(self.name), common))
        except Refused as refused:
            raise refused.during(f"cannot set up {self.label}") from None

    def ownership_conflicts(self, found: link.Link) -> list[Difference]:
        data = found.data or NOTHING
        strange = super().ownership_conflicts(found)
        return strange or compare(self.label, ("kind", "tap", "tap" if data.u8(_TYPE) == _TAP else "tun"))

    def plan_differences(self, found: link.Link, scope: Scope) -> list[Difference]:
        data = found.data or NOTHING
        fields: tuple[tuple[str, object, object], ...] = (
            ("multi_queue", self.multi_queue, bool(data.u8(_QUEUES))),
            ("vnet_hdr", self.vnet_hdr, bool(data.u8(_HEADER))),
            ("owner", self.owner, data.u32(_OWNER)),
            ("group", self.group, data.u32(_GROUP)),
            ("persistence", True, bool(data.u8(_PERSIST))),
        )
        return super().plan_differences(found, scope) + compare(self.label, *fields)


def _as_int(number: int) -> int:
    """Returns C's signed value of the same 32 bits."""
    return number - (1 << 32) if number >> 31 else number
