"""Settings of a namespace, and of its links, under /proc/sys/net."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable

from ..difference import Difference, compare, missing
from ..errors import InvalidObject, KernelError
from .base import LinkName, Object, Scope, Undo

_PART = re.compile(r"[^/\s\0]+")
_OF_LINK = re.compile(r"net/(?:ipv4|ipv6)/(?:conf|neigh)/([^/]+)/")


class Sysctl(Object, frozen=True, tag="sysctl"):
    """`key` with slashes, since links may have dots in their names: net/ipv4/conf/eth0.7/proxy_arp.

    Removal writes `otherwise`, if it is given and the value is still ours, and else leaves it.
    """

    key: str
    value: str
    otherwise: str | None = None

    def __post_init__(self) -> None:
        parts = self.key.split("/")
        if parts[0] != "net" or len(parts) < 3 or not all(_PART.fullmatch(part) for part in parts):
            raise InvalidObject(f"{self.key[:80]!r} is no setting of a namespace: net/…, with slashes")
        if ".." in parts or "." in parts:
            raise InvalidObject(f"{self.key[:80]!r} is no setting of a namespace")
        for value in (self.value, self.otherwise):
            if value is not None and (not value.strip() or "\n" in value or "\0" in value):
                raise InvalidObject(f"{self.key}: {value[:40]!r} is no value")

    @property
    def title(self) -> str:
        return f"sysctl {self.key}"

    def rests_on(self) -> Iterable[LinkName]:
        link = _OF_LINK.match(self.key)
        return () if link is None or link[1] in ("all", "default") else ((self.on, link[1]),)

    def apply(self, scope: Scope) -> Undo | None:
        before = self._read(scope)
        if before is None:
            raise KernelError(f"cannot set {self.label}: there is no such setting", errno=errno.ENOENT)
        if _same(before, self.value):
            return None
        self._write(scope, self.value)

        def undo() -> None:
            self._write(scope, before)

        return undo

    def check(self, scope: Scope) -> list[Difference]:
        found = self._read(scope)
        if found is None:
            return missing(self.label)
        return [] if _same(found, self.value) else compare(self.label, ("value", self.value, found))

    def remove(self, scope: Scope) -> None:
        if self.otherwise is None:
            return
        found = self._read(scope)
        if found is not None and _same(found, self.value):
            self._write(scope, self.otherwise)

    def _read(self, scope: Scope) -> str | None:
        try:
            # The kernel looks the path up in the namespace of the thread that opens it.
            with scope.at(self.on).entered(), open(f"/proc/sys/{self.key}") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise KernelError(f"cannot read {self.label}: {cause.strerror}", errno=cause.errno or 0) from None

    def _write(self, scope: Scope, value: str) -> None:
        try:
            with scope.at(self.on).entered(), open(f"/proc/sys/{self.key}", "w") as file:
                file.write(value)
        except OSError as cause:
            raise KernelError(
                f"cannot set {self.label} to {value}: {cause.strerror}", errno=cause.errno or 0
            ) from None


def _same(one: str, other: str) -> bool:
    """Lists of numbers are shown with tabs, whatever they were written with."""
    return one.split() == other.split()
