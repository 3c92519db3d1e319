"""Files that `netloom up` installed, their directories, networks that name the plugin, and cached results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct

from ...api.paths import receipt_of
from ...api.text import printable_line
from ...cni import AttachmentKey, CNIError
from ...cni.cache import Cache, CachedAttachment
from ...cni.load import LISTS, config_files
from ...cni.lock import LOCK_FILE, alone
from ..cni_environment import plugin_dirs
from ..control import units
from ..doctor.runtimes import all_plugin_dirs
from ..doctor.services import name
from ..install.conflist import is_as_written
from ..install.plugins import require_receipt
from ..node.install import (
    PLUGIN,
    NotBuilt,
    Receipt,
    digest,
    is_plugin,
    keep_receipt,
    read,
    receipt,
    shipped_plugin,
    take_away,
)
from ..node.networks import FILE, copies, found_in
from ..runtimes.result_owners import Owners, names_us, why_kept


class Kept(Struct, frozen=True):
    """Something that was not removed, and why."""

    what: Annotated[str, Meta(description="a file, an attachment, a link")]
    why: Annotated[str, Meta(description="who owns it, or why it could not be removed")]


class Purged(Struct):
    """What was removed, what was kept since it is not ours, what could not be removed, and warnings."""

    removed: list[str]
    kept: list[Kept]
    failed: list[Kept]
    warnings: list[str]


def remove_unused(directories: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Removes empty directories, the deepest first. Returns these, and those that a process watches."""
    removed: list[str] = []
    watched: list[tuple[str, str]] = []
    for path in sorted(directories, key=len, reverse=True):
        try:
            if os.path.islink(path) or os.listdir(path):
                continue
            who = next(_watchers(path), None)
            if who is None:
                os.rmdir(path)
                removed.append(path)
            else:
                watched.append((path, who))
        except OSError:  # it does not exist, is used again, or is a mount point
            continue
    return removed, watched


def _watchers(path: str) -> Iterator[str]:
    """Processes with an inotify watch on a directory, as far as they can be seen from here."""
    status = os.stat(path)
    device = os.major(status.st_dev) << 20 | os.minor(status.st_dev)  # as the kernel writes it
    mark = f" ino:{status.st_ino:x} sdev:{device:x} ".encode()
    for process in filter(str.isdecimal, os.listdir("/proc")):
        if any(mark in info for info in _watches(process)):
            yield f"{printable_line(name(int(process))) or 'a process'} (process {process})"


def _watches(process: str) -> Iterator[bytes]:
    """What a process watches: `inotify wd:1 ino:5e2 sdev:800013 mask:...`, a line for each."""
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:  # it has ended
        return
    for descriptor in descriptors:
        try:
            if os.readlink(f"/proc/{process}/fd/{descriptor}") == "anon_inode:inotify":
                with open(f"/proc/{process}/fdinfo/{descriptor}", "rb") as info:
                    yield info.read()
        except OSError:
            continue


_OF_ANOTHER_VERSION = (
    "it is a plugin of another version of netloom, and installed.json does not list it; remove it if it is "
    "not needed"
)


class Files:
    """Installed files, as they were when the purge began."""

    def __init__(self, state_dir: str, conf_dir: str, done: Purged) -> None:
        self._state_dir = state_dir
        self._done = done
        self._known = receipt(state_dir)
        self._stayed: list[str] = []
        self._restored = {(it.path, it.content.encode()) for it in copies(state_dir) if it.is_restored}
        damage = require_receipt(state_dir)
        if damage is not None:
            self._find_units()
            done.warnings.append(
                f"{damage}, so netloom does not know which files it installed: it removed what this version "
                "writes from the directories that runtimes use; look for its plugin, netloom, in others"
            )
        if os.path.isdir(state_dir):
            self._find_unknown(conf_dir)

    @property
    def plugins(self) -> list[str]:
        return [path for path in self._known.everything if os.path.basename(path) == PLUGIN]

    def remove_networks(self) -> None:
        """Removes networks' files. Call it first, so that no runtime begins to use what will be removed."""
        self._remove(of_networks=True)

    def remove_others(self) -> None:
        self._remove(of_networks=False)

    def remember(self) -> bool:
        """Records what was kept, so that the next purge reports it again. False if nothing was kept."""
        left = self._known.leaving([path for path in self._stayed if not path.endswith(".conflist")])
        if left.left:
            try:
                keep_receipt(self._state_dir, left)
            except OSError as cause:  # the present receipt lists them, too
                self._done.failed.append(Kept(receipt_of(self._state_dir), cause.strerror or str(cause)))
        return bool(left.left)

    def _find_unknown(self, conf_dir: str) -> None:
        for path, content in _conflists(conf_dir):
            if self._is_network_of_ours(path, content):
                self._known = self._known.adding(path, content)
        if not self.plugins:
            for path, content in _found_plugins():
                self._known = self._found(path, content)

    def _is_network_of_ours(self, path: str, content: bytes) -> bool:
        """Whether we wrote a file that the receipt does not list by this path: it may have been renamed."""
        known = self._known.everything
        if (path, content) in self._restored:
            return True
        if path in known:
            return False
        is_the_usual = os.path.basename(path) == FILE and is_as_written(content)
        return is_the_usual or digest(content) in known.values()

    def _find_units(self) -> None:
        for path, content in units.left(self._state_dir).items():
            self._known = self._known.adding(path, content)

    def _found(self, path: str, content: bytes) -> Receipt:
        try:
            if content == shipped_plugin():
                return self._known.adding(path, content)
        except NotBuilt:
            pass
        self._done.kept.append(Kept(path, _OF_ANOTHER_VERSION))
        return self._known

    def _remove(self, *, of_networks: bool) -> None:
        for path in self._known.everything:
            if path.endswith(".conflist") != of_networks or not os.path.lexists(path):
                continue
            try:
                why = take_away(path, self._known)
            except OSError as cause:
                self._done.failed.append(Kept(path, cause.strerror or str(cause)))
                continue
            if why is None:
                self._done.removed.append(path)
                continue
            self._stayed.append(path)
            if not of_networks:
                why += f"; {receipt_of(self._state_dir)} still lists it"
            self._done.kept.append(Kept(path, why))


def _conflists(conf_dir: str) -> Iterator[tuple[str, bytes]]:
    try:
        paths = config_files(conf_dir, LISTS)
    except CNIError:
        return  # `Networks` warns of it
    for path in paths:
        content = _content(path)
        if content is not None:
            yield path, content


def _found_plugins() -> Iterator[tuple[str, bytes]]:
    directories = map(os.path.abspath, (*plugin_dirs(), *all_plugin_dirs()))
    for path in dict.fromkeys(os.path.join(it, PLUGIN) for it in directories):
        content = _content(path)
        if content is not None and is_plugin(content):
            yield path, content


def _content(path: str) -> bytes | None:
    try:
        return read(path)
    except OSError:
        return None


_NOT_OURS = "it differs from what `netloom up` writes, so it may be needed"


class Networks:
    """Networks that name our plugin, as they were when the purge began."""

    def __init__(self, conf_dir: str, done: Purged) -> None:
        try:
            networks, problems = found_in(conf_dir)
        except CNIError as error:
            networks, problems = [], []
            done.warnings.append(f"networks' files were not removed: {error}")
        self._paths = {it.path: f"network {it.name}" for it in networks}
        # Files that name our plugin and cannot be parsed.
        self._paths |= {it.path: "its network" for it in problems}

    def kept_beside(self, kept: Iterable[Kept]) -> list[Kept]:
        """Networks' files that still exist and that `kept` does not list."""
        told = {it.what for it in kept}
        return [Kept(path, _NOT_OURS) for path in self._left() if path not in told]

    def warnings(self) -> list[str]:
        """Warnings for a machine from which the plugin was removed."""
        return [
            f"{path} was kept, but its plugin was removed: runtimes that use {self._paths[path]} cannot "
            "attach or delete containers; remove the file, or install the plugin again with `netloom up`"
            for path in self._left()
        ]

    def _left(self) -> Iterator[str]:
        return filter(os.path.lexists, self._paths)


def remove_results(cache_dir: str, known: Owners) -> tuple[list[str], list[Kept]]:
    """Removes cached results of our plugin. Returns their paths, and those that were kept, and why."""
    cache = Cache(cache_dir)
    removed: list[str] = []
    kept: list[Kept] = []
    for it in results(cache):
        if not names_us(it):
            continue
        key = it.endpoint.on(it.network)
        path = cache.path(key)
        why = why_kept(it, known)
        # The file may belong to another attachment now, or have a wrong name.
        if not why and cache.owner(key) != key:
            why = "its content names another attachment than its file name"
        why = why or _removed(cache, key)
        if why:
            kept.append(Kept(path, why))
        else:
            removed.append(path)
    return removed, kept


def remove_lock(cache_dir: str) -> tuple[list[str], tuple[str, str] | None]:
    """Removes the cache's lock. Returns the removed paths; and the lock and the reason, if it was kept."""
    removed = []
    try:
        with alone(cache_dir) as lock:
            os.unlink(lock)
            removed.append(lock)
            with suppress(OSError):  # it is not empty
                for directory in (Cache(cache_dir).results, cache_dir):
                    if os.path.lexists(directory):
                        os.rmdir(directory)
                        removed.append(directory)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as cause:
        return removed, (os.path.join(cache_dir, LOCK_FILE), cause.strerror or str(cause))
    return removed, None


def results(cache: Cache) -> list[CachedAttachment]:
    """All results that can be read."""
    try:
        return cache.attachments()
    except OSError:
        return []


def _removed(cache: Cache, key: AttachmentKey) -> str:
    """Removes a result. Returns why that failed; empty if it did not."""
    try:
        cache.remove(key)
    except OSError as cause:
        return cause.strerror or str(cause)
    return ""
