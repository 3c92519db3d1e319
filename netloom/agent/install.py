"""Files that a node gets: put in place in one step, and written down, so that they can be told from others'.

A runtime may run the plugin or read the network's file at any moment. So each appears whole, by a rename:
that neither waits for a plugin that runs ("text file busy") nor shows half a file to anybody.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..cni.files import make_directories, read_document, sync_directory

PLUGIN = "netloom"
# Of files: how the plugin and the network's configuration are put there.
EXECUTABLE = 0o755
READABLE = 0o644

_SHIPPED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_plugin", PLUGIN)
_RECEIPT = "installed.json"
_LARGEST = 64 << 20

Put: TypeAlias = Literal["installed", "replaced", "kept"]


class NotBuilt(Exception):
    """This installation has no plugin."""


class Receipt(Struct, frozen=True):
    """Which files of this node are ours: each one's path, and the digest of what we wrote there.

    And the directories that were not there before, of which the same cannot be said: others may use them.
    """

    files: Mapping[str, str] = {}
    directories: tuple[str, ...] = ()

    def is_ours(self, path: str, content: bytes) -> bool:
        """Whether a file is as we wrote it. One that somebody has changed since is theirs."""
        return self.files.get(path) == digest(content)

    def adding(self, path: str, content: bytes, directories: Iterable[str] = ()) -> Receipt:
        made = dict.fromkeys((*self.directories, *directories))
        return Receipt({**self.files, path: digest(content)}, tuple(made))


def shipped_plugin() -> bytes:
    try:
        return read_document(_SHIPPED, limit=_LARGEST)
    except OSError:
        raise NotBuilt(f"this installation has no plugin: {_SHIPPED} is missing") from None


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read(path: str) -> bytes | None:
    """A file's content, or None if it is not there. OSError says what is wrong with any other."""
    try:
        return read_document(path, limit=_LARGEST)
    except FileNotFoundError:
        return None


def put(path: str, content: bytes, mode: int) -> Put:
    """Makes it so. What is so already is not written again."""
    before = read(path)
    if before == content and os.stat(path).st_mode & 0o777 == mode:
        return "kept"
    directory, name = os.path.split(path)
    make_directories(directory, 0o755)
    # No runtime takes it for a configuration, nor for a plugin that a network could name.
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


def missing_directories(path: str) -> list[str]:
    """What `put` has to make above a file, the deepest first."""
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
    """What was written down; nothing, if it was lost: then every file is somebody else's."""
    try:
        return msgspec.json.decode(read(os.path.join(state_dir, _RECEIPT)) or b"{}", type=Receipt)
    except (OSError, msgspec.MsgspecError):
        return Receipt()


def keep_receipt(state_dir: str, kept: Receipt) -> None:
    put(os.path.join(state_dir, _RECEIPT), msgspec.json.format(msgspec.json.encode(kept)), 0o600)


def take_away(path: str, known: Receipt) -> str | None:
    """Removes a file of ours. Gives back why it stayed, or None if it is gone."""
    try:
        content = read(path)
        if content is None:
            return None
        if not known.is_ours(path, content):
            return "changed since it was installed"
        os.unlink(path)
    except OSError as cause:
        return cause.strerror or errno.errorcode.get(cause.errno or 0, "it cannot be removed")
    return None
