"""One page of the catalogue."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# Where it comes from: a number of CNI, the kernel's objects, a command, or a look at the node.
Area: TypeAlias = Literal["cni", "kernel", "command", "finding"]


class Entry(Struct, frozen=True):
    """`meaning` and `remedy` are sentences for people, with commands in backquotes."""

    code: str
    area: Area
    title: str
    meaning: str
    remedy: str

    @property
    def page(self) -> str:
        """Where the reference has it."""
        return f"docs/reference/errors/{self.code}.md"
