"""What sources give: a part of the archive, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from ..output import encodable as as_encodable


class Member(Struct, frozen=True, kw_only=True):
    """A document (any value that JSON can have), rows (a line for each), or text.

    Of what is too long, the end is kept if `newest_last`, else the beginning. `cut` is what the source itself
    has left out. `is_ours` if only netloom wrote it, so that `key` in it need not be a secret.
    """

    name: str
    about: str
    document: Any = None
    rows: list[Any] | None = None
    text: str | None = None
    newest_last: bool = False
    cut: str = ""
    error: str = ""
    is_ours: bool = True


class Trouble(Struct, frozen=True):
    """Something that could not be had."""

    name: str
    about: str
    error: str


Found: TypeAlias = Member | Trouble


def encodable(found: Found) -> Found:
    """Names of files may hold bytes that are no text; these are written as escapes."""
    try:
        try:
            msgspec.json.encode(found)
        except UnicodeEncodeError:
            made: Found = msgspec.convert(as_encodable(msgspec.to_builtins(found)), type(found))
            return made
    except RecursionError:
        return Trouble(str(as_encodable(found.name)), found.about, "it is nested too deep to be shown")
    return found


class Asked(NamedTuple):
    """Where to look, and how much of it is wanted."""

    state_dir: str
    socket: str
    conf_dir: str
    cache_dir: str
    operations: int

    @property
    def journal(self) -> str:
        return f"{self.state_dir}/journal.db"


def lines_of(rows: Iterable[Any]) -> str:
    """JSON, an object a line: what is cut anywhere can still be read."""
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)
