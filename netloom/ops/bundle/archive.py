"""The archive: its members, its manifest, and a file that is written completely or not at all."""

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
    """One member. `size` is in bytes, as it is in the archive; `cut` says how it was cut, if it was.

    Without content, `error` says why; with content, `error` says what is missing in it.
    """

    name: str
    about: str
    size: int = 0
    cut: str = ""
    error: str = ""
    milliseconds: float = 0.0


class Manifest(Struct, frozen=True, kw_only=True):
    """`made` is the time, in seconds since 1970. `in_time` is whether every source answered in time."""

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

    If it is too long, its end is kept if `newest_last`, else its beginning. `cut` says what the source itself
    left out. `is_ours` if only netloom wrote it, so that a field `key` is no secret.
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


class MissingMember(Struct, frozen=True):
    """A member that could not be collected, and why."""

    name: str
    about: str
    error: str


Found: TypeAlias = Member | MissingMember


class Gathered(NamedTuple):
    found: Found
    milliseconds: float


def encodable(found: Found) -> Found:
    """The same, with escapes for bytes that are not UTF-8, which names of files may hold."""
    try:
        try:
            msgspec.json.encode(found)
        except UnicodeEncodeError:
            made: Found = msgspec.convert(as_encodable(msgspec.to_builtins(found)), type(found))
            return made
    except RecursionError:
        return MissingMember(str(as_encodable(found.name)), found.about, "it is nested too deeply")
    return found


class Asked(NamedTuple):
    """The paths that sources read, and the number of operations to include."""

    state_dir: str
    socket: str
    conf_dir: str
    cache_dir: str
    operations: int

    @property
    def journal(self) -> str:
        return journal_of(self.state_dir)


def lines_of(rows: Iterable[Any]) -> str:
    """JSON with one object per line, which can still be read if it is cut anywhere."""
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)


# Bytes of a member beside its content, and of the archive's end.
_OVERHEAD = 200
_LEVEL = 6
# A member is not cut to fewer bytes than this.
_LEAST = 512


class ArchiveMember(NamedTuple):
    """A member with the content that it has in the archive if it fits; None if it has no content."""

    part: Part
    content: bytes | None
    newest_last: bool


class Exists(Exception):
    """The path exists. `what` says what it is, unless it is a file."""

    def __init__(self, path: str, what: str | None = None) -> None:
        super().__init__(path)
        self.what = what


def fitted(entries: Iterable[ArchiveMember], budget: int) -> list[ArchiveMember]:
    """The members as they fit: the first are complete while there is room, the others are marked as cut."""
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
    said = (
        f"the {which} {len(content)} of {len(whole)} bytes"
        if content
        else "nothing of it: the archive is full"
    )
    cut = f"{entry.part.cut}; {said}" if entry.part.cut else said
    part = _replaced(entry.part, size=len(content), cut=cut)
    return ArchiveMember(part, content or None, entry.newest_last)


def _replaced(part: Part, *, size: int, cut: str) -> Part:
    from msgspec.structs import replace

    # A cut document is not JSON any more.
    name = f"{part.name}.cut" if part.name.endswith(".json") and size else part.name
    return replace(part, name=name, size=size, cut=cut)


def _cut(content: bytes, size: int, newest_last: bool) -> bytes:
    """Cuts at the end of a line, if one is near."""
    if newest_last:
        piece = content[-size:]
        return piece[piece.find(b"\n") + 1 :]
    piece = content[:size]
    end = piece.rfind(b"\n") + 1
    return piece[:end] if end > size // 2 else piece


def _packed(content: bytes) -> int:
    return len(zlib.compress(content, _LEVEL)) + _OVERHEAD


def packed(directory: str, members: Iterable[tuple[str, bytes]], made: float) -> bytes:
    """The archive, made by tar and gzip."""
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
    """What is at a path, unless it is a file or nothing: for example a device, which other programs need."""
    try:
        return other_than_file(os.lstat(path).st_mode)
    except OSError:
        return None


def write(path: str, content: bytes, *, force: bool) -> None:
    """Writes a file that only its owner can read. Raises `Exists` or OSError; then it leaves no file."""
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
    """Gives the file its name. A rename would replace a file that was created meanwhile."""
    try:
        os.link(spare, path)
    except FileExistsError:
        raise Exists(path) from None
    except OSError as cause:
        if cause.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        # A file system without links, for example on a USB stick.
        if os.path.lexists(path):
            raise Exists(path) from None
        os.rename(spare, path)
