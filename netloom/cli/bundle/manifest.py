"""What is in the archive, and what is not and why: `MANIFEST.json` in it, and what the command prints."""

from __future__ import annotations

from msgspec import Struct

NAME = "MANIFEST.json"


class Part(Struct, frozen=True, kw_only=True):
    """One member. `size` is in bytes, as it is in the archive; `cut` says what is missing of it, if anything.

    Without content, `error` says why; with it, what more there should be.
    """

    name: str
    about: str
    size: int = 0
    cut: str = ""
    error: str = ""
    milliseconds: float = 0.0


class Manifest(Struct, frozen=True, kw_only=True):
    """`made` is when, seconds since 1970. `in_time` is whether no source was given up for want of time."""

    netloom: str
    made: float
    host: str
    anonymous: bool
    in_time: bool
    parts: tuple[Part, ...]


class Bundle(Struct, frozen=True, kw_only=True):
    """The archive that was written. `size` is the file's, in bytes."""

    path: str
    size: int
    manifest: Manifest
