"""A policy rule."""

from __future__ import annotations

import socket
from typing import Literal

from ..errors import Difference, InvalidObject, missing
from ..netlink import rule as wire
from ..netlink.connection import NetlinkConnection
from ..netlink.message import CREATE
from ..values import packed_network, require_link_name, require_range
from .base import Object, Scope, Undo
from .route import PROTOCOL

_ACTIONS = {
    "lookup": wire.LOOKUP,
    "blackhole": wire.BLACKHOLE,
    "unreachable": wire.UNREACHABLE,
    "prohibit": wire.PROHIBIT,
}
_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


class Rule(Object, frozen=True, tag="rule"):
    """Which table routes which packets. All fields identify a rule: any other value makes another rule."""

    priority: int
    family: Literal["ipv4", "ipv6"]
    table: int | None = None
    source: str | None = None
    destination: str | None = None
    iif: str | None = None
    oif: str | None = None
    mark: int | None = None
    mask: int | None = None
    l3mdev: bool = False
    invert: bool = False
    suppress_prefix: int | None = None
    action: Literal["lookup", "blackhole", "unreachable", "prohibit"] = "lookup"

    def __post_init__(self) -> None:
        require_range("priority", self.priority, 1, 0xFFFFFFFF)
        require_range("table", self.table, 1, 0xFFFFFFFF)
        require_range("mark", self.mark, 0, 0xFFFFFFFF)
        require_range("mask", self.mask, 0, 0xFFFFFFFF)
        require_range("suppress_prefix", self.suppress_prefix, 0, 128)
        for name in (self.iif, self.oif):
            if name is not None:
                require_link_name(name)
        if (self.action == "lookup" and not self.l3mdev) != (self.table is not None):
            raise InvalidObject(f"{self.label}: a lookup needs a table, and only a lookup has one")
        if self.mask is not None and self.mark is None:
            raise InvalidObject(f"{self.label}: a mask needs a mark")
        size = 4 if self.family == "ipv4" else 16
        for network in (self.source, self.destination):
            if network is not None and len(packed_network(network)[0]) != size:
                raise InvalidObject(f"{self.label}: {network} is not {self.family}")

    @property
    def title(self) -> str:
        return f"{self.family} rule {self.priority}"

    def _wire(self) -> wire.RuleRecord:
        # The kernel gives a mark without a mask the full mask, and lists that.
        mask = 0xFFFFFFFF if self.mark is not None and self.mask is None else self.mask
        return wire.RuleRecord(
            family=_FAMILIES[self.family],
            priority=self.priority,
            action=_ACTIONS[self.action],
            table=self.table or 0,
            invert=self.invert,
            source=_network(self.source),
            destination=_network(self.destination),
            iif=self.iif,
            oif=self.oif,
            mark=self.mark,
            mask=mask,
            l3mdev=self.l3mdev,
            suppress=self.suppress_prefix,
            protocol=PROTOCOL,
            more=False,
        )

    def apply(self, scope: Scope) -> Undo | None:
        return self._create(scope, wire.NEW, self._request)

    def _keep(self, scope: Scope) -> Undo | None:
        """The kernel treats a rule with more conditions as equal to one with fewer."""
        if not self.check(scope):
            return None
        return self._create(scope, wire.NEW, self._request, CREATE)

    def check(self, scope: Scope) -> list[Difference]:
        wanted = _comparable(self._wire())
        found = (_comparable(wire.decode(payload)) for payload in self._listed(scope.at(self.on).route))
        return [] if any(rule == wanted for rule in found) else missing(self.label)

    def remove(self, scope: Scope) -> None:
        """Deletes the rule. If the kernel deletes a narrower one instead, puts that one back."""
        connection = scope.at(self.on).route
        others: list[bytes] = []
        try:
            while self._is_among(before := self._listed(connection)):
                self._delete(scope, wire.DELETE, self._request)
                left = self._listed(connection)
                others += [one for one in before if one not in left and not self._is_among([one])]
                if left == before:
                    return
        finally:
            for payload in others:  # as it was listed, with conditions that our records do not have
                connection.change(wire.NEW, CREATE, payload)

    def _listed(self, connection: NetlinkConnection) -> list[bytes]:
        """Returns the rules of our priority; decoding the others is not worth it."""
        listed = connection.dump(wire.GET, wire.everything(_FAMILIES[self.family]))
        return [payload for payload in listed if wire.may_have_priority(payload, self.priority)]

    def _is_among(self, payloads: list[bytes]) -> bool:
        wanted = _comparable(self._wire())
        rules = map(wire.decode, payloads)
        return any(one.protocol == PROTOCOL and _comparable(one) == wanted for one in rules)

    def _request(self, connection: NetlinkConnection) -> bytes:
        del connection  # rules refer to links by name
        return wire.build(self._wire())


def is_equal(rule: Rule, found: wire.RuleRecord) -> bool:
    """Says whether a listed rule equals this one."""
    return found.priority == rule.priority and _comparable(found) == _comparable(rule._wire())


def _network(text: str | None) -> tuple[bytes, int] | None:
    """A network of prefix 0 matches everything, and the kernel does not store it."""
    network = None if text is None else packed_network(text)
    return network if network and network[1] else None


def _comparable(rule: wire.RuleRecord) -> tuple[object, ...]:
    """Drops what may differ between equal rules: who made them. Rules with more conditions equal none of
    ours.
    """
    return (
        rule.more,
        rule.family, rule.priority, rule.action, rule.table, rule.invert, rule.source, rule.destination,
        rule.iif, rule.oif, rule.mark or 0, rule.mask or 0, rule.l3mdev, rule.suppress,
    )  # fmt: skip
