"""The up state of a link."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from ..errors import ABSENT, Difference, Refused, compare, missing
from ..namespace import Namespace
from ..netlink import link
from ..values import require_link_name
from .base import LinkName, Object, Scope, Undo
from .link import flags_of, name_of
from .sysctl import written


class Up(Object, frozen=True, tag="up"):
    """Sets a link up. With `stay`, removal leaves it up: for links outside the plan, such as `lo`.

    Without `link_local`, the kernel makes no link-local address for it.
    """

    link: str
    stay: bool = False
    link_local: bool = True

    def __post_init__(self) -> None:
        require_link_name(self.link)

    @property
    def title(self) -> str:
        return f"link {self.link} up"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def apply(self, scope: Scope) -> Undo | None:
        namespace = scope.at(self.on)
        if self._is_up(namespace):
            return None
        if not self.link_local:
            self._switch_link_local_off(namespace)
        self._set(namespace, up=True)

        def undo() -> None:
            self._set(namespace, up=False)

        return undo

    def check(self, scope: Scope) -> list[Difference]:
        try:
            up = self._is_up(scope.at(self.on))
        except Refused as refused:
            if refused.errno in ABSENT:
                return missing(self.label)
            raise
        return compare(self.label, ("state", "up", "up" if up else "down"))

    def remove(self, scope: Scope) -> None:
        if self.stay:
            return
        try:
            self._set(scope.at(self.on), up=False)
        except Refused as refused:
            if refused.errno not in ABSENT:
                raise

    def _switch_link_local_off(self, namespace: Namespace) -> None:
        connection = namespace.route
        try:
            request = link.change(connection.index(self.link), link.without_link_local())
            connection.change(link.SET, 0, request)
        except Refused as refused:
            if refused.errno != errno.EAFNOSUPPORT:  # without IPv6, the setting does not exist
                raise refused.during(f"cannot disable link-local addresses of {self.link}") from None

    def _is_up(self, namespace: Namespace) -> bool:
        return bool(flags_of(namespace, self.link) & link.UP)

    def _set(self, namespace: Namespace, *, up: bool) -> None:
        connection = namespace.route
        try:
            index = connection.index(self.link)
            request = link.change(index, up=up)
            if up:
                connection.change(link.SET, 0, request)
                return
            # When a link goes down, the kernel deletes its IPv6 addresses unless told to keep them.
            with written(namespace, f"net/ipv6/conf/{name_of(namespace, index)}/keep_addr_on_down", "1"):
                connection.change(link.SET, 0, request)
        except Refused as refused:
            raise refused.during(f"cannot set link {self.link} {'up' if up else 'down'}") from None
