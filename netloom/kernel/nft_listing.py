"""All that nftables has, as documents: for whoever looks at the rules of others, and changes nothing.

Elements of named sets are left out: they are as many as there are containers.
"""

from __future__ import annotations

import ctypes
from typing import Any

import msgspec

from .errors import KernelError, Malformed
from .namespace import Namespace
from .nft import Nft

_JSON, _TERSE = 1 << 4, 1 << 11


class _InJson(Nft):
    def __init__(self, namespace: Namespace) -> None:
        super().__init__(namespace.entered)
        set_flags = self._library.nft_ctx_output_set_flags
        set_flags.argtypes = [ctypes.c_void_p, ctypes.c_uint]
        set_flags(self._context, _JSON | _TERSE)


def listed(namespace: Namespace, what: str = "ruleset") -> list[dict[str, Any]]:
    """As `nft -j -t list ruleset` has it, without the first entry, which is about nft itself.

    Raises `KernelError` if nftables cannot be asked, or libnftables was built without JSON.
    """
    nft = _InJson(namespace)
    try:
        said = nft.run(f"list {what}")
    finally:
        nft.close()
    try:
        document = msgspec.json.decode(said, type=dict[str, list[dict[str, Any]]])
    except msgspec.MsgspecError as cause:
        raise Malformed(f"nft printed something that is no JSON: {cause}") from None
    if "nftables" not in document:
        raise KernelError("nft printed no ruleset")
    return [it for it in document["nftables"] if "metainfo" not in it]
