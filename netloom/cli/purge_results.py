"""Results of attachments by hand in the cache that all CNI runtimes share (/var/lib/cni).

`netloom cni` keeps them there, as cnitool does. Once network and plugin are gone, no `netloom cni del` can
remove them, and they would stay for ever. Ours is what says so itself: its container is named after its
namespace, which only these two tools do, every plugin of its list is netloom's, and it is an attachment or
of a network that was just removed. All others are some runtime's, which needs them to delete its containers.

Beside them is the lock of `netloom cni` and of programs that use our library. It goes while none of them is
at work, and with it the directories, if nothing else is in them: every runtime makes them when it needs them.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from ..agent.networks import TYPE
from ..cni import AttachmentKey, CNIError, parse_network
from ..cni.cache import Cache, CachedAttachment
from ..cni.lock import LOCK_FILE, alone
from .cni.target import container_id


def remove_results(
    cache_dir: str, gone: Collection[AttachmentKey], networks: Collection[str]
) -> tuple[list[str], int]:
    """The paths that were removed, and how many results of these attachments and networks stay."""
    cache = Cache(cache_dir)
    removed: list[str] = []
    others = 0
    for it in _known(cache):
        key = it.endpoint.on(it.network)
        if key not in gone and it.network not in networks:
            continue
        # Its file may be another's by now, or have another name than it should.
        if _is_by_hand(it) and cache.owner(key) == key and _removed(cache, key):
            removed.append(cache.path(key))
        else:
            others += 1
    return removed, others


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


def _known(cache: Cache) -> list[CachedAttachment]:
    try:
        return cache.attachments()
    except OSError:
        return []


def _is_by_hand(it: CachedAttachment) -> bool:
    try:
        plugins = parse_network(it.config).plugins
    except CNIError:
        return False
    return it.container_id == container_id(it.netns) and all(plugin.type == TYPE for plugin in plugins)


def _removed(cache: Cache, key: AttachmentKey) -> bool:
    try:
        cache.remove(key)
    except OSError:
        return False
    return True
