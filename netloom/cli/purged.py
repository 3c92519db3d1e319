"""What `netloom down --purge` has done, as values."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Kept(Struct, frozen=True):
    """What stayed, and why."""

    what: Annotated[str, Meta(description="a file, an attachment, a link")]
    why: Annotated[str, Meta(description="whose it is, or what was in the way")]


class Purged(Struct):
    """What went, what stayed since it is not ours, what could not be removed, and what is to be mended."""

    removed: list[str]
    kept: list[Kept]
    failed: list[Kept]
    warnings: list[str]
