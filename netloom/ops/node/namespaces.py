"""Whether an attachment's namespace is still there, and when an agent was last alive."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ...journal import Attachment, AttachmentPlace
from ...kernel import InvalidNamespace, Namespace

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def leads_there(place: AttachmentPlace | Attachment) -> bool:
    """Whether the path still leads to the very namespace that was attached."""
    return leads_to(place.netns, place.netns_device, place.netns_inode)


def leads_to(path: str, device: int, inode: int) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return (status.st_dev, status.st_ino) == (device, inode)


async def is_another(namespace: Namespace, attachment: Attachment) -> bool:
    """Whether it has the inode of the attachment's namespace, but is another: that one was deleted.

    The kernel reuses the inode of a deleted namespace at once, the lowest first.
    """
    if namespace.identity != (attachment.netns_device, attachment.netns_inode):
        return False
    import asyncio

    # Reading the cookie enters the namespace, which the event loop's thread must not do.
    cookie = await asyncio.to_thread(lambda: namespace.cookie)
    return attachment.netns_cookie not in (0, cookie)


def boot_id() -> str:
    with open(_BOOT_ID) as file:
        return file.read().strip()


def namespace_of(attachment: Attachment, given: Namespace | None = None) -> Namespace | None:
    """Opens an attachment's namespace, if it still exists: by the given descriptor, or by its path."""
    identity = (attachment.netns_device, attachment.netns_inode)
    if given is not None and given.identity == identity:
        return Namespace.of_descriptor(given.fileno(), attachment.netns)
    try:
        found = Namespace.open(attachment.netns)
    except InvalidNamespace:
        return None
    if found.identity == identity:
        return found
    found.close()
    return None


_MILLISECOND = 1_000_000


def show_life(socket: str) -> None:
    """Records a heartbeat of the agent in its socket's modification time."""
    now = time.time_ns() // _MILLISECOND * _MILLISECOND
    with suppress(OSError):  # the agent makes a missing socket again
        os.utime(socket, ns=(now, now))


def last_sign(socket: str) -> float | None:
    """Returns the last heartbeat of an agent; None if it is not known."""
    try:
        changed = os.stat(socket).st_mtime_ns
    except OSError:
        return None
    return changed / 1e9 if changed % _MILLISECOND == 0 and changed <= time.time_ns() else None
