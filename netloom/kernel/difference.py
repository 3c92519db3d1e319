"""What `check` finds: in words for people, as data for programs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Difference(Struct, frozen=True, omit_defaults=True):
    """One thing that is not as planned. `object` names it as a plan's listing does.

    >>> print(Difference("veth nl0", "different", "mtu", "1500", "1400"))
    veth nl0: mtu is 1400, not 1500
    """

    object: str
    what: Literal["missing", "different"]
    field: str | None = None
    wanted: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        return f"{self.object}: {self.said}"

    @property
    def is_of_peer(self) -> bool:
        """Whether it is about the other end of a pair."""
        return self.field is not None and self.field.startswith("peer")

    @property
    def said(self) -> str:
        """Without the object's name."""
        return "missing" if self.what == "missing" else f"{self.field} is {self.found}, not {self.wanted}"


def missing(name: str) -> list[Difference]:
    return [Difference(name, "missing")]


def compare(name: str, *fields: tuple[str, object, object]) -> list[Difference]:
    """The fields, each with what is wanted and what was found, that differ."""
    return [
        Difference(name, "different", field, _shown(wanted), _shown(found))
        for field, wanted, found in fields
        if wanted != found
    ]


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
