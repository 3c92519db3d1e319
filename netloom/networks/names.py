"""Names, MACs and addresses that need not be remembered: they follow from a key, or are always the same."""

from __future__ import annotations

from typing import NamedTuple

from ..cni import AttachmentKey

# Links whose names begin so are guarded by the node's table from their birth on.
PREFIX = "loom"

# Of the links in which waits what a container sends that may send so much a second. The rest is as in the
# name of the host's end of its pair.
QUEUE_PREFIX = "lque"

# Of the host's end of every pair. Each is alone on its wire, so they need not differ.
HOST_MAC = "ee:6e:6c:00:00:01"


# Of the host, on every node: the next hop of all containers, and the source that they see when the host calls
# from its loopback, or when they call themselves from outside.
HOST4 = "169.254.1.1"
HOST6 = "fd6e:6574:6c6f:6f6d::1"


class Names(NamedTuple):
    """Of one attachment: the host's end of its pair, and the container's MAC.

    44 bits of a hash are in a name: with 10,000 attachments, two are the same once in 350,000 nodes. Then the
    next attempt has others. The MAC is locally administered, of one station, and the same whenever the
    container comes back.
    """

    host_link: str
    mac: str


def names_of(key: AttachmentKey, attempt: int = 0) -> Names:
    import hashlib  # who only looks at names need not wait for it

    digest = hashlib.sha256("\0".join((*key, str(attempt))).encode("utf-8", "surrogateescape")).digest()
    return Names(PREFIX + digest.hex()[:11], "02:" + digest[-5:].hex(":"))


def queue_of(host_link: str) -> str:
    return QUEUE_PREFIX + host_link.removeprefix(PREFIX)


def host_link_of(name: str) -> str | None:
    """The host's end of the attachment that a link of ours belongs to; None of somebody else's."""
    if name.startswith(QUEUE_PREFIX):
        return PREFIX + name.removeprefix(QUEUE_PREFIX)
    return name if name.startswith(PREFIX) else None


# The host's main routing table. Networks whose containers the host has routes to share it.
SCOPE = "main"


# What `TABLE.comment` is.
EDITION = "made by netloom 85c8ed7f17fa2f63"
