"""An entry of the catalogue."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# What reports it: a CNI plugin (by number), the kernel objects, a command, or a check of the node.
Area: TypeAlias = Literal["cni", "kernel", "command", "finding"]


class Entry(Struct, frozen=True):
    """One error or finding. `meaning` and `remedy` are sentences for people, with commands in backquotes."""

    code: str
    area: Area
    title: str
    meaning: str
    remedy: str

    @property
    def page(self) -> str:
        """The path of its page in the reference."""
        return f"docs/reference/errors/{self.code}.md"
