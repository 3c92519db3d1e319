"""Replays DELs that the plugin queued as files because no agent answered.

A file is the whole request. It has the time of the request, so that an old DEL never deletes an attachment
that was created after it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from contextlib import suppress
from functools import partial

from ...api.protocol import SUFFIX, Message, ProtocolError, read_intent, waiting
from ...cni import AttachmentKey, CNIError
from ...cni.files import Replacement, make_directories
from ...cni.skel import judge_config
from ...failpoints import failpoint
from ..node import Node
from ..server.caller import about
from ..server.record import Timer, trace_of
from ..verbs.delete import delete
from ..verbs.errors import explained

log = logging.getLogger(__name__)

_SUFFIX = ".del"
_BAD = ".unreadable"
# A killed plugin leaves a temporary file. Younger ones may still be written.
_ABANDONED = 60.0


async def replay(node: Node) -> int:
    """Replays all queued DELs. Returns how many succeeded."""
    done = 0
    for path in waiting(node.settings.intents):
        if await _replay_one(node, path):
            done += 1
    _sweep(node.settings.intents)
    if done:
        failpoint("recovery.intents")
    return done


async def _replay_one(node: Node, path: str) -> bool:
    try:
        message = read_intent(path)
        keys = keys_of(node, message)
    except (ProtocolError, CNIError) as error:
        # It must neither be lost silently nor be tried forever.
        why = error.discreet if isinstance(error, CNIError) else error
        log.warning("cannot read a queued DEL; keeping it as %s%s: %s", path, _BAD, why)
        with suppress(OSError):
            os.rename(path, path + _BAD)
        return False
    except FileNotFoundError:
        return False
    sent, trace = _sent(message), trace_of(message)
    kept: list[AttachmentKey] = []
    for key in keys:
        try:
            timer = Timer()
            keeping = partial(kept.append, key)
            deleted = await delete(node, key, None, timer, sent_before=sent, keep=keeping)
        except Exception as error:
            why = explained(error, key).reason
            log.warning("a queued DEL failed and stays queued: %s", why, extra=about(key, trace))
            return False
        # While the journal cannot store it, every round deletes it again: one event, when it is stored.
        if deleted and key not in kept:
            node.events.record("REPLAY", "replayed a queued DEL", timer.attachment, trace=trace)
            log.info("replayed the queued DEL of %s", key, extra=about(key, trace))
    if kept:  # deleted in the kernel, but not in the journal yet: a restart needs the file
        return False
    failpoint("recovery.intent")
    with suppress(FileNotFoundError):
        os.unlink(path)
    node.tally.count("replayed")
    return True


def _sent(message: Message) -> float:
    """Returns the time of the request, limited to the time between boot and now."""
    return max(0, min(message.head.sent, time.clock_gettime_ns(time.CLOCK_BOOTTIME))) / 1e9


def keys_of(node: Node, message: Message) -> list[AttachmentKey]:
    """Returns the attachments that a DEL names. It needs only the network's name from the configuration.

    Without that name, these are all interfaces of the container with the given interface name. If there are
    none, that is no error: a runtime repeats a DEL until it succeeds.
    """
    environment = message.head.environment
    container_id, ifname = environment.get("CNI_CONTAINERID", ""), environment.get("CNI_IFNAME", "")
    try:
        return [AttachmentKey(judge_config(message.body)["name"], container_id, ifname)]
    except CNIError:
        if not container_id or not ifname:  # a queued file that the plugin did not write
            raise
        of_container = node.journal.look(lambda ledger: ledger.of_container(container_id))
        return [it.key for it in of_container if it.ifname == ifname]


def keep(directory: str, message: Message) -> None:
    """Queues a request for the next replay, because the journal cannot store its outcome."""
    make_directories(directory, 0o700)
    replacement = Replacement(directory, _name_of(message))
    try:
        replacement.reserve(len(message.frame))
        replacement.commit(message.frame)
    finally:
        replacement.close()


def _name_of(message: Message) -> str:
    """Returns a name that depends only on what is deleted: a repeated DEL replaces the earlier file."""
    environment = message.head.environment
    named = "\0".join(environment.get(it, "") for it in ("CNI_CONTAINERID", "CNI_IFNAME"))
    digest = hashlib.sha256(named.encode("utf-8", "surrogatepass") + b"\0" + message.body)
    return digest.hexdigest()[:32] + SUFFIX


def _sweep(directory: str) -> None:
    """Removes incomplete files of killed plugins."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") and time.time() - entry.stat().st_mtime > _ABANDONED:
                with suppress(OSError):
                    os.unlink(entry.path)
