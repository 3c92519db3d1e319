"""Results in the CNI cache of attachments that were just released: nobody will ever ask for them.

A runtime that deletes such a container later does so without its result, as after a reboot. Where other
plugins have a part in an attachment, it stays: they may need it for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ..cni import AttachmentKey
from ..cni.cache import Cache
from ..journal import Ledger
from ..ops.node.leaks import Leftover
from .result_owners import is_namespace, is_ours_alone

_OF_ATTACHMENTS = ("attachment", "unfinished")


class CachedResult(Struct, frozen=True):
    """The file of an attachment that is gone, or will be."""

    cache: Cache
    key: AttachmentKey

    @property
    def path(self) -> str:
        return self.cache.path(self.key)

    def remove(self) -> bool:
        try:
            self.cache.remove(self.key)
        except OSError:
            return False
        return True


def results_of(cache_dir: str, released: Iterable[Leftover]) -> Iterator[CachedResult]:
    cache = Cache(cache_dir)
    for key in filter(None, map(_key, released)):
        # One that says so itself, and not that of a container that has come back under the same name.
        found = cache.config(key) if cache.owner(key) == key else None
        if found is not None and is_ours_alone(found) and not (found.netns and is_namespace(found.netns)):
            yield CachedResult(cache, key)


def is_there(ledger: Ledger, it: Leftover) -> bool:
    """Whether there is an attachment of this name by now."""
    key = _key(it)
    return key is not None and ledger.find(key) is not None


def _key(it: Leftover) -> AttachmentKey | None:
    parts = it.subject.split("/")
    return AttachmentKey(*parts) if it.kind in _OF_ATTACHMENTS and len(parts) == 3 else None
