"""Results that are ours in the cache that all CNI runtimes share (/var/lib/cni).

`netloom cni` keeps them there, as cnitool does. Once network and plugin are gone, no `netloom cni del` can
remove them, and they would stay for ever; so would those of containers that are gone. Of those that name our
plugin, all go but what a runtime needs to delete its containers.

Beside them is the lock of `netloom cni` and of programs that use our library. It goes while none of them is
at work, and with it the directories, if nothing else is in them: every runtime makes them when it needs them.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..cni import AttachmentKey
from ..cni.cache import Cache, CachedAttachment
from ..cni.lock import LOCK_FILE, alone
from .purged import Kept
from .result_owners import Owners, names_us, why_kept


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
