"""Whether an attachment's namespace is still there."""

from __future__ import annotations

import os

from ..journal import Attachment, Place
from ..kernel import Namespace
from ..kernel.objects.link import find
from .node import Node


def leads_there(place: Place | Attachment) -> bool:
    """Whether the path still leads to the very namespace that was attached."""
    return leads_to(place.netns, place.netns_device, place.netns_inode)


def leads_to(path: str, device: int, inode: int) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return (status.st_dev, status.st_ino) == (device, inode)


async def is_dead(node: Node, attachment: Attachment) -> bool:
    """A namespace that ends takes its links along, and so our end of the pair.

    While that is there, somebody holds the namespace, whatever has become of its path.
    """
    if leads_there(attachment):
        return False

    def has_link(host: Namespace) -> bool:
        return find(host, attachment.host_link) is not None

    return not await node.look(has_link)
