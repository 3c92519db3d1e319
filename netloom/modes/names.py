"""Names and MACs that follow from an attachment's key, so that they need not be remembered to be the same."""

from __future__ import annotations

import hashlib

from ..cni import AttachmentKey

# Links whose names begin so are guarded by the node's table from their birth on.
PREFIX = "loom"

# Of the host's end of every pair. Each is alone on its wire, so they need not differ.
HOST_MAC = "ee:6e:6c:00:00:01"


def host_link(key: AttachmentKey, attempt: int = 0) -> str:
    """44 bits of a hash: with 10,000 attachments, two are the same once in 350,000 nodes. Then try again."""
    return PREFIX + _digest(key, attempt).hex()[:11]


def mac_address(key: AttachmentKey, attempt: int = 0) -> str:
    """Locally administered, of one station, and the same whenever the container comes back."""
    return "02:" + _digest(key, attempt)[-5:].hex(":")


def _digest(key: AttachmentKey, attempt: int) -> bytes:
    return hashlib.sha256("\0".join((*key, str(attempt))).encode()).digest()
