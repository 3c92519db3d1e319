"""Names, MACs and addresses that are derived from an attachment's key, or are constant."""

from __future__ import annotations

from typing import NamedTuple

from ..cni import AttachmentKey

# The node's nft table filters every link with this prefix from its creation on.
PREFIX = "loom"

# The prefix of links that queue the packets of containers with an egress limit. The rest of the name is that
# of the host's end of the pair.
QUEUE_PREFIX = "lque"

# The MAC of the host's end of every pair. Each end is alone on its wire, so they can all have the same.
HOST_MAC = "ee:6e:6c:00:00:01"

# Addresses of the host, the same on every node: the next hop of all containers, and the source address that
# they see when the host connects from its loopback, or when they connect to themselves by a host port.
HOST4 = "169.254.1.1"
HOST6 = "fd6e:6574:6c6f:6f6d::1"


class Names(NamedTuple):
    """The name of the host's end of an attachment's pair, and the container's MAC.

    A name has 44 bits of a hash: with 10,000 attachments, two collide on one of 350,000 nodes. Then the next
    attempt gives other names. The MAC is locally administered and unicast, and stays the same whenever the
    container is attached again.
    """

    host_link: str
    mac: str


def names_of(key: AttachmentKey, attempt: int = 0) -> Names:
    import hashlib  # only new names need it

    digest = hashlib.sha256("\0".join((*key, str(attempt))).encode("utf-8", "surrogateescape")).digest()
    return Names(PREFIX + digest.hex()[:11], "02:" + digest[-5:].hex(":"))


def queue_of(host_link: str) -> str:
    return QUEUE_PREFIX + host_link.removeprefix(PREFIX)


def host_link_of(name: str) -> str | None:
    """Returns the host's end of the attachment to which a link belongs; None if it is not netloom's."""
    if name.startswith(QUEUE_PREFIX):
        return PREFIX + name.removeprefix(QUEUE_PREFIX)
    return name if name.startswith(PREFIX) else None


# The address scope of the host's main routing table, shared by all networks that have routes in it.
SCOPE = "main"


# The value of `TABLE.comment`.
EDITION = "made by netloom 85c8ed7f17fa2f63"
