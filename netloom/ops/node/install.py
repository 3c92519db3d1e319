"""Files that netloom installs on a node: written atomically, and recorded in a receipt.

A runtime may run the plugin or read the network's file at any moment. So each file appears whole, by a
rename, which also works while the plugin runs ("text file busy"). The receipt tells netloom's files from
those of others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...api.paths import receipt_of
from ...cni.files import make_directories, read_document, sync_directory

PLUGIN = "netloom"
# File modes of the plugin and of the network's configuration.
EXECUTABLE = 0o755
READABLE = 0o644

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_SHIPPED = os.path.join(_ROOT, "_plugin", PLUGIN)
_LARGEST = 64 << 20
# Text that every version of the plugin prints when it is run by hand.
_MARK = b"netloom: the CNI plugin that hands its requests to the agent of the node"
# Errors for something in a file's place that is not a file that netloom wrote.
_NO_FILE = (errno.EISDIR, errno.EINVAL, errno.EFBIG, errno.ELOOP)

Put: TypeAlias = Literal["installed", "replaced", "kept"]


class NotBuilt(Exception):
    """This installation has no plugin."""


class Receipt(Struct, frozen=True):
    """The files that netloom installed on this node: paths, with digests of the contents that it wrote.

    `directories` are those that netloom made; others may use them, too. `left` are files that a purge found
    changed: netloom no longer manages them, and every purge names them. `intended` are files that were about
    to be written when the process was cut off: each has the content of `files`, or this one. `network` is the
    name of the network that `netloom up` configured; with `keep_network`, the agent restores that network's
    file when it is missing.
    """

    files: Mapping[str, str] = {}
    directories: tuple[str, ...] = ()
    left: Mapping[str, str] = {}
    intended: Mapping[str, str] = {}
    network: str = ""
    keep_network: bool = False

    def is_ours(self, path: str, content: bytes) -> bool:
        """Whether a file is as netloom wrote it. A file that was changed since belongs to others."""
        return digest(content) in (self.left.get(path), self.files.get(path), self.intended.get(path))

    @property
    def everything(self) -> Mapping[str, str]:
        """All files that a purge has to check."""
        return {**self.left, **self.intended, **self.files}

    @property
    def plugins(self) -> list[str]:
        """Every path at which the plugin was installed, the oldest first."""
        return [path for path in self.files if os.path.basename(path) == PLUGIN]

    def adding(self, path: str, content: bytes, directories: Iterable[str] = ()) -> Receipt:
        made = dict.fromkeys((*self.directories, *directories))
        return replace(
            self,
            files={**self.files, path: digest(content)},
            directories=tuple(made),
            left=_without(self.left, path),
            intended=_without(self.intended, path),
        )

    def intending(self, path: str, content: bytes, directories: Iterable[str] = ()) -> Receipt:
        """Must be stored before a file is written, so that the file is known if the process is cut off."""
        made = dict.fromkeys((*self.directories, *directories))
        return replace(self, directories=tuple(made), intended={**self.intended, path: digest(content)})

    def forgetting(self, paths: Collection[str]) -> Receipt:
        """Returns a receipt without files that were deleted, and the directories deleted with them."""
        gone = {directory for path in paths for directory in missing_directories(path)}
        gone |= {os.path.dirname(path) for path in paths if not os.path.isdir(os.path.dirname(path))}
        return replace(
            self,
            files=_without(self.files, *paths),
            directories=tuple(it for it in self.directories if it not in gone),
        )

    def leaving(self, paths: Collection[str]) -> Receipt:
        """Returns the receipt after a purge: files that it kept, and the directories that have them."""
        left = {path: it for path, it in self.everything.items() if path in paths}
        return Receipt({}, tuple(filter(os.path.isdir, self.directories)) if left else (), left)


def _without(known: Mapping[str, str], *paths: str) -> Mapping[str, str]:
    return {path: it for path, it in known.items() if path not in paths}


def shipped_plugin() -> bytes:
    try:
        return read_document(_SHIPPED, limit=_LARGEST)
    except OSError:
        raise NotBuilt(f"this installation has no plugin: {_SHIPPED} is missing") from None


def digest(content: bytes) -> str:
    import hashlib  # imported only when needed

    return hashlib.sha256(content).hexdigest()


def read(path: str) -> bytes | None:
    """Returns a file's content, or None if it does not exist. Raises OSError if it cannot be read."""
    try:
        return read_document(path, limit=_LARGEST)
    except FileNotFoundError:
        return None


def put(path: str, content: bytes, mode: int) -> Put:
    """Writes a file atomically, unless it has this content and mode already."""
    before = read(path)
    if before == content and os.stat(path).st_mode & 0o777 == mode:
        return "kept"
    directory, name = os.path.split(path)
    make_directories(directory, 0o755)
    # With this name, no runtime uses it as a configuration or as a plugin.
    spare = os.path.join(directory, f".{name}.{os.getpid()}.new")
    try:
        _write(spare, content, mode)
        os.rename(spare, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(spare)
        raise
    sync_directory(directory)
    return "installed" if before is None else "replaced"


def put_new(path: str, content: bytes, mode: int) -> None:
    """Writes a new file atomically. Raises FileExistsError if something has its name."""
    directory, name = os.path.split(path)
    make_directories(directory, 0o755)
    spare = os.path.join(directory, f".{name}.{os.getpid()}.new")
    try:
        _write(spare, content, mode)
        os.link(spare, path, follow_symlinks=False)
    finally:
        with suppress(OSError):
            os.unlink(spare)
    sync_directory(directory)


def missing_directories(path: str) -> list[str]:
    """Returns the directories that `put` has to make for a file, the deepest first."""
    missing = []
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return missing


def _write(path: str, content: bytes, mode: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)


def receipt(state_dir: str) -> Receipt:
    """Reads the receipt; if it is lost, it is empty, and every file counts as another's."""
    try:
        return _decoded(state_dir)
    except (OSError, ValueError):
        return Receipt()


def receipt_damage(state_dir: str) -> str | None:
    """Returns why it is invalid, or None. Raises OSError if it can be neither read nor replaced."""
    try:
        _decoded(state_dir)
    except NotADirectoryError:  # there is no such state directory, which is reported elsewhere
        return None
    except ValueError as error:
        return str(error)
    return None


def _decoded(state_dir: str) -> Receipt:
    path = receipt_of(state_dir)
    content = read(path)
    if content is None:
        if os.path.islink(path):  # the target's disk may not be mounted: the receipt is not empty
            raise FileNotFoundError(errno.ENOENT, "It is a symbolic link to a missing file", path)
        return Receipt()
    try:
        found = msgspec.json.decode(content, type=Receipt)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    for path in (*found.everything, *found.directories):
        if not os.path.isabs(path) or "\0" in path:
            raise ValueError(f"{path!r} is not an absolute path")
    return found


def keep_receipt(state_dir: str, kept: Receipt) -> None:
    put(receipt_of(state_dir), msgspec.json.format(msgspec.json.encode(kept)), 0o600)


def is_plugin(content: bytes) -> bool:
    """Whether it is netloom's plugin, of any version."""
    return content.startswith(b"\x7fELF") and _MARK in content


def take_away(path: str, known: Receipt) -> str | None:
    """Removes a file of netloom. Returns why the file is no longer netloom's, or None if it was removed.

    Raises OSError if a file that is or may be netloom's cannot be removed.
    """
    try:
        content = read(path)
    except OSError as cause:
        if cause.errno not in _NO_FILE:
            raise
        return f"something else is in its place: {cause.strerror}"
    if content is None and not os.path.islink(path):
        return None
    if content is None or not known.is_ours(path, content):
        return "changed since it was installed"
    os.unlink(path)
    return None
