"""Whether an attachment's namespace is still there."""

from __future__ import annotations

import asyncio
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


async def is_another(namespace: Namespace, attachment: Attachment) -> bool:
    """Whether it has the number of the attachment's namespace, and is not it: that one is gone.

    The kernel gives the number of a namespace's inode again at once, and the lowest first.
    """
    if namespace.identity != (attachment.netns_device, attachment.netns_inode):
        return False
    cookie = await asyncio.to_thread(lambda: namespace.cookie)  # an event loop's thread must not go there
    return attachment.netns_cookie not in (0, cookie)


async def is_dead(node: Node, attachment: Attachment) -> bool:
    """A namespace that ends takes its links along, and so our end of the pair.

    While that is there, somebody holds the namespace, whatever has become of its path.
    """
    if leads_there(attachment):
        return False

    def has_link(host: Namespace) -> bool:
        return find(host, attachment.host_link) is not None

    return not await node.look(has_link)
