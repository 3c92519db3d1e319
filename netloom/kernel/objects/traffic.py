"""Traffic control: hooks, redirection, and shaping."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import ClassVar, Literal

from msgspec import structs

from ..errors import (
    ABSENT,
    Conflict,
    Difference,
    InvalidObject,
    KernelError,
    Refused,
    Unsupported,
    compare,
    missing,
)
from ..netlink import filter as filters
from ..netlink import qdisc
from ..netlink.connection import NetlinkConnection
from ..netlink.message import CREATE, EXCLUSIVE
from ..values import require_link_name, require_range
from .base import LinkName, Object, Scope, Undo
from .link import name_for

# A root qdisc with this handle ("nl") is ours: `tc qdisc` shows it as 6e6c:.
HANDLE = 0x6E6C0000

_LACKS_MATCHALL = ("lacks", "matchall")


class Ingress(Object, frozen=True, tag="ingress"):
    """The hook at which filters see a link's incoming packets (and outgoing ones, with `clsact`)."""

    link: str
    kind: Literal["ingress", "clsact"] = "ingress"

    def __post_init__(self) -> None:
        require_link_name(self.link)

    @property
    def title(self) -> str:
        return f"{self.kind} hook on {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: NetlinkConnection) -> bytes:
        return qdisc.ingress(connection.index(self.link), self.kind)

    def apply(self, scope: Scope) -> Undo | None:
        try:
            return self._create(scope, qdisc.NEW, self._request)
        except Refused as refused:
            raise _explained(refused, self.label, self.kind) from None

    def check(self, scope: Scope) -> list[Difference]:
        return self.compared(_qdiscs(scope, self))

    def compared(self, listed: Iterable[qdisc.Qdisc]) -> list[Difference]:
        """`listed` are all qdiscs of the link."""
        found = next((one for one in listed if one.parent == qdisc.INGRESS), None)
        if found is None:
            return missing(self.label)
        return compare(self.label, ("kind", self.kind, found.kind))

    def remove(self, scope: Scope) -> None:
        """Deletes the hook. That would delete its filters, so it stays while another program has filters
        there.
        """
        differences = self.check(scope)
        if differences and differences[0].what == "missing":
            return
        differences = differences or compare(self.label, ("filters", 0, self._filters(scope)))
        if differences:
            raise Conflict(differences)
        self._delete(scope, qdisc.DELETE, self._request)

    def _filters(self, scope: Scope) -> int:
        connection = scope.at(self.on).route
        index = connection.index(self.link)
        parents = (filters.INGRESS_PARENT, filters.EGRESS_PARENT)
        listed = [
            payload
            for parent in parents[: 1 if self.kind == "ingress" else 2]
            for payload in connection.dump(filters.GET, filters.of_link(index, parent))
        ]
        return len(_filters(listed))


class Redirect(Object, frozen=True, tag="redirect"):
    """Redirects all incoming packets of a link to another one. It needs the link's `Ingress`.

    `auto` uses matchall if the kernel has it, else u32; both have the same effect.
    """

    link: str
    to: str
    classifier: Literal["auto", "matchall", "u32"] = "auto"
    priority: int = 1

    def __post_init__(self) -> None:
        require_link_name(self.link)
        require_link_name(self.to)
        require_range("priority", self.priority, 1, 65535)

    @property
    def title(self) -> str:
        return f"redirect from {self.link} to {self.to}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def apply(self, scope: Scope) -> Undo | None:
        # The kernel would silently add a second u32 filter of the same priority.
        found = self._find(scope)
        if found is not None:
            if not _leads_nowhere(found):
                return self._keep(scope)
            self.remove(scope)
        if self.classifier != "auto":
            return self._make(scope, self.classifier)
        # A refusal takes time, and may start a process that looks for a module.
        lacks_matchall = scope.host.findings.get(_LACKS_MATCHALL)
        if not lacks_matchall:
            try:
                return self._make(scope, "matchall")
            except Unsupported:
                scope.host.findings[_LACKS_MATCHALL] = True
        return self._make(scope, "u32")

    def _make(self, scope: Scope, kind: str) -> Undo:
        connection = scope.at(self.on).route
        try:
            request = filters.redirect(
                connection.index(self.link), connection.index(self.to), kind=kind, priority=self.priority
            )
            connection.change(filters.NEW, CREATE | EXCLUSIVE, request)
        except Refused as refused:
            raise _explained(refused, self.label, kind) from None
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        found = self._find(scope)
        if found is None or _leads_nowhere(found):
            return missing(self.label)
        fields: list[tuple[str, object, object]] = [
            ("target", self.to, name_for(scope.at(self.on), found.redirect, self.to) or "none"),
            ("match", "everything", "everything" if found.everything else "some"),
        ]
        if self.classifier != "auto":
            fields.append(("classifier", self.classifier, found.kind))
        return compare(self.label, *fields)

    def _find(self, scope: Scope) -> filters.Filter | None:
        connection = scope.at(self.on).route
        try:
            listed = connection.dump(filters.GET, filters.of_link(connection.index(self.link)))
        except Refused as refused:
            # Without a hook, there is no parent to query.
            if refused.errno in ABSENT or refused.errno == errno.EINVAL:
                return None
            raise
        found = [one for one in _filters(listed) if one.priority == self.priority]
        return next((one for one in found if one.redirect is not None), next(iter(found), None))

    def remove(self, scope: Scope) -> None:
        found = self._find(scope)
        if found is None:
            return
        if found.redirect:
            differences = compare(
                self.label,
                ("target", self.to, name_for(scope.at(self.on), found.redirect, self.to) or "none"),
            )
            if differences:
                raise Conflict(differences)
        elif found.redirect is None:
            raise Conflict(self.check(scope))
        self._delete(scope, filters.DELETE, lambda _: filters.exactly(found.index, found))
        # A u32 filter leaves its hash table, which filters of other priorities may share.
        if found.kind == "u32" and self._find(scope) is None:
            table = structs.replace(found, handle=0)
            self._delete(scope, filters.DELETE, lambda _: filters.exactly(found.index, table))


def _leads_nowhere(found: filters.Filter) -> bool:
    """Says whether its target link was deleted. Then it drops everything."""
    return found.redirect == 0


class Shaper(Object, frozen=True, tag="shaper"):
    """Limits how fast a link may send: `rate` in bytes per second, `burst` bytes at once, `limit` bytes
    waiting.
    """

    link: str
    rate: int
    burst: int
    limit: int

    kind: ClassVar[str] = "tbf"

    def __post_init__(self) -> None:
        require_link_name(self.link)
        require_range("rate", self.rate, 1, 1 << 40)
        require_range("burst", self.burst, 1, 1 << 31)
        require_range("limit", self.limit, 1, 0xFFFFFFFF)
        # The kernel stores a burst as its duration: 32 bits of 64 ns.
        if self.burst * 1_000_000_000 > self.rate * 64 * 0xFFFFFFFF:
            raise InvalidObject(f"{self.label}: a burst of {self.burst} lasts over 274 s at rate {self.rate}")

    @property
    def title(self) -> str:
        return f"shaper of {self.link}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.link),)

    def _request(self, connection: NetlinkConnection) -> bytes:
        bucket = qdisc.TokenBucket(self.rate, self.burst, self.limit)
        return qdisc.token_bucket(connection.index(self.link), HANDLE, bucket)

    def apply(self, scope: Scope) -> Undo | None:
        try:
            return self._create(scope, qdisc.NEW, self._request)
        except Refused as refused:
            raise _explained(refused, self.label, self.kind) from None

    def check(self, scope: Scope) -> list[Difference]:
        return self.compared(_qdiscs(scope, self))

    def compared(self, listed: Iterable[qdisc.Qdisc]) -> list[Difference]:
        """`listed` are all qdiscs of the link."""
        found = _set_root(listed)
        if found is None:
            return missing(self.label)
        if (found.kind, found.handle) != (self.kind, HANDLE):
            return compare(
                self.label,
                ("qdisc", f"{self.kind} {HANDLE >> 16:x}:", f"{found.kind} {found.handle >> 16:x}:"),
            )
        bucket = qdisc.decode_token_bucket(found.options)
        # The kernel stores the burst as a duration, in ticks of 64 ns.
        blur = 2 + 2 * 64 * self.rate // 1_000_000_000
        burst = self.burst if abs(bucket.burst - self.burst) <= blur else bucket.burst
        return compare(
            self.label,
            ("rate", self.rate, bucket.rate),
            ("burst", self.burst, burst),
            ("limit", self.limit, bucket.limit),
        )

    def remove(self, scope: Scope) -> None:
        found = _set_root(_qdiscs(scope, self))
        if found is None:
            return
        if (found.kind, found.handle) != (self.kind, HANDLE):
            raise Conflict(self.check(scope))
        self._delete(scope, qdisc.DELETE, lambda _: qdisc.at_root(found.index))


def _set_root(listed: Iterable[qdisc.Qdisc]) -> qdisc.Qdisc | None:
    """Returns the root qdisc that a program set; the kernel's own have no handle."""
    return next((one for one in listed if one.parent == qdisc.ROOT and one.handle), None)


def _filters(listed: Iterable[bytes]) -> list[filters.Filter]:
    """Returns the filters without u32's hash tables, which are listed like filters without item number."""
    found = map(filters.decode, listed)
    return [one for one in found if one.handle and (one.kind != "u32" or one.handle & 0xFFF)]


def _qdiscs(scope: Scope, of: Ingress | Shaper) -> list[qdisc.Qdisc]:
    connection = scope.at(of.on).route
    try:
        index = connection.index(of.link)
        listed = connection.dump(qdisc.GET, qdisc.of_link(index))
    except Refused as refused:
        if refused.errno in ABSENT:
            return []
        raise
    return [one for one in map(qdisc.decode, listed) if one.index == index]


def _explained(refused: Refused, label: str, feature: str) -> KernelError:
    """Explains the error: for an unknown type, the kernel only says that it is not found."""
    words = refused.explanation.lower()
    if "unknown" in words or "not found" in words or "failed to load" in words:
        return Unsupported(
            f"cannot add {label}: this kernel has no {feature} ({refused.explanation})", feature=feature
        )
    return refused if refused.context else refused.during(f"cannot add {label}")
