"""How a network gets another pool, word for word: `netloom up` replaces all pools by those that it is given,
so whoever names the new one alone loses the others."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..node.networks import FILE

_WAIT = "wait until addresses have rested, "
_DETACH = (
    "detach something (`netloom gc --dry-run` shows what is left over), or give the network another pool"
)
_BEFORE = "give the network another pool before it is used up"
_REMEDIES = {"pool-exhausted": _DETACH, "pool-nearly-exhausted": _BEFORE}


def remedy_of(code: str, network: str, path: str, pools: Iterable[str], *, rests: bool) -> str:
    """What to do about a pool without addresses, or with few. To wait helps only where something `rests`."""
    wait = _WAIT if rests and code == "pool-exhausted" else ""
    return f"{wait}{_REMEDIES[code]}: {another_pool(network, path, pools)}"


def another_pool(network: str, path: str, pools: Iterable[str]) -> str:
    """Of the file that `netloom up` writes, its command; of any other, what to write there."""
    if os.path.basename(path) != FILE:
        return f'add {{"cidr": "NEW_CIDR"}} to `pools` in {path}'
    options = " ".join(f"--pool {cidr}" for cidr in (*pools, "NEW_CIDR"))
    return f"`netloom up --network {network} {options}`"
