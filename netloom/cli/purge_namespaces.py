"""Namespaces that `netloom connectivity` has made and left: with --keep, or when it was killed.

They are ours by name. One that is attached to another plugin's network, too, stays until that is undone: only
that plugin can give back what it holds for it.
"""

from __future__ import annotations

import os

from ..cni.cache import Cache
from .connectivity import throwaway
from .purge_results import results
from .purged import Kept


def remove_namespaces(cache_dir: str) -> tuple[list[str], list[Kept]]:
    """What went, and what stays and why. Results of ours have to be gone from the cache by now."""
    attached = {it.container_id: it for it in results(Cache(cache_dir))}
    removed: list[str] = []
    kept: list[Kept] = []
    for name in [*_kept(), *throwaway.abandoned()]:
        what, it = f"namespace {name}", attached.get(name)
        if it is not None:
            undo = f"`netloom cni del {it.network} {it.netns} --container-id {name} -i {it.ifname}`"
            kept.append(Kept(what, f"it is attached to {it.network}; {undo}, then `ip netns del {name}`"))
            continue
        try:
            throwaway.remove(name)
            removed.append(what)
        except OSError as cause:
            kept.append(Kept(what, cause.strerror or str(cause)))
    return removed, kept


def _kept() -> list[str]:
    try:
        return sorted(it for it in os.listdir(throwaway.DIRECTORY) if it.startswith(throwaway.KEPT_PREFIX))
    except OSError:
        return []
