"""Which networks this node has: those of the files that runtimes read, and those that runtimes ask for.

Files are looked at whenever somebody wants to know, and read only if one of them was changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct

from ...cni import CNIError, Problem
from ...ipam import Pool
from ...networks.config import Network
from .networks import Found, found_in

# Networks whose files are elsewhere; a runtime has a few.
_MOST = 64

# Name, inode, size and times of a file: as long as these are the same, so is what is in it.
_Look: TypeAlias = tuple[tuple[str, int, int, int, int], ...]


class NamedPool(Struct, frozen=True):
    """A pool of a network. `is_asked` is of one that no file has."""

    network: str
    pool: Pool
    cooldown: float
    is_asked: bool = False


class NetworkFiles:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._asked: dict[str, Network] = {}
        self._seen: _Look | None = None
        self._found = Found()

    def asked(self, name: str, network: Network) -> None:
        """An ADD came for it."""
        if name in self._asked or len(self._asked) < _MOST:
            self._asked[name] = network

    def found(self) -> Found:
        """Reads files; not on the loop's thread."""
        look = _look(self.directory)
        if look != self._seen:
            try:
                networks, problems = found_in(self.directory)
                self._found = Found(tuple(networks), tuple(problems))
            except CNIError as error:
                self._found = Found(problems=(Problem(self.directory, error),))
            self._seen = look
        return self._found

    def pools(self) -> list[NamedPool]:
        """Those of files first. What was asked for by a name that a file has is that file's."""
        files = reversed(self.found().networks)  # of two files of one name, the first counts
        listed = {it.name: it.network for it in files if it.network is not None}
        return [
            NamedPool(name, pool, network.cooldown, is_asked)
            for is_asked, networks in ((False, listed), (True, dict(self._asked)))
            for name, network in networks.items()
            if not is_asked or name not in listed
            for pool in network.pools
        ]


def _look(directory: str) -> _Look:
    try:
        return tuple(sorted(_entries(directory, inside=True)))
    except OSError as cause:
        return ((directory, 0, cause.errno or 0, 0, 0),)


def _entries(directory: str, *, inside: bool) -> Iterator[tuple[str, int, int, int, int]]:
    """With `inside`, also those of its directories: a list's plugins may be in one beside it."""
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(OSError):  # it is gone by now, or leads nowhere
                found = entry.stat()
                yield entry.path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                if inside and entry.is_dir(follow_symlinks=False):
                    yield from _entries(entry.path, inside=False)
