"""The archive: its members, its manifest, and a file that is written whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from ...api.paths import journal_of
from ...api.text import encodable as as_encodable
from ...journal.file_type import other_than_file

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


class Gathered(NamedTuple):
    found: Found
    milliseconds: float


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
        return journal_of(self.state_dir)


def lines_of(rows: Iterable[Any]) -> str:
    """JSON, an object a line: what is cut anywhere can still be read."""
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)


# Of a member beside its content, and of the archive's end.
_OVERHEAD = 200
_LEVEL = 6
# Less than this is not worth a member.
_LEAST = 512


class ArchiveMember(NamedTuple):
    """A member whose content is what will be in the archive, if it fits; None of one that there is not."""

    part: Part
    content: bytes | None
    newest_last: bool


class Exists(Exception):
    """Something of that name is there. `what` it is, if it is no file."""

    def __init__(self, path: str, what: str | None = None) -> None:
        super().__init__(path)
        self.what = what


def fitted(entries: Iterable[ArchiveMember], budget: int) -> list[ArchiveMember]:
    """Those that come first are whole as long as there is room; the others are cut, and say so."""
    kept = []
    for entry in entries:
        fitting = entry if entry.content is None else _fit(entry, entry.content, budget)
        kept.append(fitting)
        if fitting.content is not None:
            budget -= _packed(fitting.content)
    return kept


def _fit(entry: ArchiveMember, whole: bytes, budget: int) -> ArchiveMember:
    content = whole
    while content and _packed(content) > budget:
        room = budget / _packed(content) * len(content) * 0.9
        content = _cut(content, int(room), entry.newest_last) if room >= _LEAST else b""
    if len(content) == len(whole):
        return entry
    which = "last" if entry.newest_last else "first"
    said = f"the {which} {len(content)} of {len(whole)} bytes" if content else "all of it, for want of room"
    cut = f"{entry.part.cut}; {said}" if entry.part.cut else said
    part = _replaced(entry.part, size=len(content), cut=cut)
    return ArchiveMember(part, content or None, entry.newest_last)


def _replaced(part: Part, *, size: int, cut: str) -> Part:
    from msgspec.structs import replace

    # What is no JSON any more is not called so.
    name = f"{part.name}.cut" if part.name.endswith(".json") and size else part.name
    return replace(part, name=name, size=size, cut=cut)


def _cut(content: bytes, size: int, newest_last: bool) -> bytes:
    """At the end of a line, if there is one near."""
    if newest_last:
        piece = content[-size:]
        return piece[piece.find(b"\n") + 1 :]
    piece = content[:size]
    end = piece.rfind(b"\n") + 1
    return piece[:end] if end > size // 2 else piece


def _packed(content: bytes) -> int:
    return len(zlib.compress(content, _LEVEL)) + _OVERHEAD


def packed(directory: str, members: Iterable[tuple[str, bytes]], made: float) -> bytes:
    """As tar and gzip have it."""
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w:gz", compresslevel=_LEVEL, format=tarfile.PAX_FORMAT
    ) as archive:
        for name, content in members:
            member = tarfile.TarInfo(f"{directory}/{name}")
            member.size, member.mode, member.mtime = len(content), 0o600, int(made)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def what_is_at(path: str) -> str | None:
    """If it is no file. A device, say: with a file in its place, others would not find it any more."""
    try:
        return other_than_file(os.lstat(path).st_mode)
    except OSError:
        return None


def write(path: str, content: bytes, *, force: bool) -> None:
    """For its owner alone. Raises `Exists`, or OSError; then nothing is left of it."""
    directory, name = os.path.split(path)
    spare = os.path.join(directory, f".{name}.{os.getpid()}-{os.urandom(4).hex()}")
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            what = what_is_at(path)
            if what is not None:
                raise Exists(path, what)
            os.rename(spare, path)
        else:
            _link(spare, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(spare)


def _link(spare: str, path: str) -> None:
    """A rename would take the place of a file that came meanwhile."""
    try:
        os.link(spare, path)
    except FileExistsError:
        raise Exists(path) from None
    except OSError as cause:
        if cause.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        # A file system without links, as of a USB stick.
        if os.path.lexists(path):
            raise Exists(path) from None
        os.rename(spare, path)
