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
    """What stayed, and why."""

    what: Annotated[str, Meta(description="a file, an attachment, a link")]
    why: Annotated[str, Meta(description="whose it is, or what was in the way")]


class Purged(Struct):
    """What went, what stayed since it is not ours, what could not be removed, and what is to be mended."""

    removed: list[str]
    kept: list[Kept]
    failed: list[Kept]
    warnings: list[str]


def remove_unused(directories: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Those that went, the deepest first; and those that stay since somebody watches them, and who."""
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
        except OSError:  # it is gone, somebody uses it since, or something is mounted there
            continue
    return removed, watched


def _watchers(path: str) -> Iterator[str]:
    """Processes with an inotify watch on a directory, as far as they can be seen from here."""
    status = os.stat(path)
    device = os.major(status.st_dev) << 20 | os.minor(status.st_dev)  # as the kernel has it
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
    "it is a plugin of netloom that installed.json does not tell of, and not the one of this version; "
    "remove it if nobody needs it"
)


class Files:
    """As they were when the purge began."""

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
                f"{damage}, so which files are netloom's is not known: what is as this version writes it "
                "went from where runtimes look; look for the plugin, netloom, wherever else it was installed"
            )
        if os.path.isdir(state_dir):
            self._find_unknown(conf_dir)

    @property
    def plugins(self) -> list[str]:
        return [path for path in self._known.everything if os.path.basename(path) == PLUGIN]

    def remove_networks(self) -> None:
        """First, so that no runtime begins to use what is about to go."""
        self._remove(of_networks=True)

    def remove_others(self) -> None:
        self._remove(of_networks=False)

    def remember(self) -> bool:
        """Writes down what stayed, so that the next purge names it again. False: there is nothing."""
        left = self._known.leaving([path for path in self._stayed if not path.endswith(".conflist")])
        if left.left:
            try:
                keep_receipt(self._state_dir, left)
            except OSError as cause:  # the one that is there tells of them, too
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
        """Also one that was renamed since. One that is known by its path is judged by that."""
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
                why += f"; {receipt_of(self._state_dir)} remembers it"
            self._done.kept.append(Kept(path, why))


def _conflists(conf_dir: str) -> Iterator[tuple[str, bytes]]:
    try:
        paths = config_files(conf_dir, LISTS)
    except CNIError:
        return  # as `Networks` tells
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


_NOT_OURS = "it is not as `netloom up` has written it, so somebody may need it"


class Networks:
    """As they were when the purge began."""

    def __init__(self, conf_dir: str, done: Purged) -> None:
        try:
            networks, problems = found_in(conf_dir)
        except CNIError as error:
            networks, problems = [], []
            done.warnings.append(f"files of networks were left alone: {error}")
        self._paths = {it.path: f"network {it.name}" for it in networks}
        # That name our plugin, and cannot be read.
        self._paths |= {it.path: "its network" for it in problems}

    def kept_beside(self, kept: Iterable[Kept]) -> list[Kept]:
        """Those that are still there and that nobody has told of."""
        told = {it.what for it in kept}
        return [Kept(path, _NOT_OURS) for path in self._left() if path not in told]

    def warnings(self) -> list[str]:
        """Of a machine from which the plugin is gone."""
        return [
            f"{path} was kept, and the plugin that it names is gone: runtimes that use {self._paths[path]} "
            "can attach and delete nothing; remove the file, or install the plugin again with `netloom up`"
            for path in self._left()
        ]

    def _left(self) -> Iterator[str]:
        return filter(os.path.lexists, self._paths)


def remove_results(cache_dir: str, known: Owners) -> tuple[list[str], list[Kept]]:
    """The paths that were removed; and those that name our plugin and stay, and why."""
    cache = Cache(cache_dir)
    removed: list[str] = []
    kept: list[Kept] = []
    for it in results(cache):
        if not names_us(it):
            continue
        key = it.endpoint.on(it.network)
        path = cache.path(key)
        why = why_kept(it, known)
        # Its file may be another's by now, or have another name than it should.
        if not why and cache.owner(key) != key:
            why = "it says that it is of another attachment than its name does"
        why = why or _removed(cache, key)
        if why:
            kept.append(Kept(path, why))
        else:
            removed.append(path)
    return removed, kept


def remove_lock(cache_dir: str) -> tuple[list[str], tuple[str, str] | None]:
    """The paths that were removed; and the lock and why it stays, if it does."""
    removed = []
    try:
        with alone(cache_dir) as lock:
            os.unlink(lock)
            removed.append(lock)
            with suppress(OSError):  # there is something in it
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
    """All that can be read."""
    try:
        return cache.attachments()
    except OSError:
        return []


def _removed(cache: Cache, key: AttachmentKey) -> str:
    """Why it could not be; empty if it was."""
    try:
        cache.remove(key)
    except OSError as cause:
        return cause.strerror or str(cause)
    return ""
