"""GC at the runtime's request, and the agent's own collection of leaked attachments.

The agent collects an attachment only if its namespace's path leads elsewhere or nowhere and the host's end of
the pair is missing, in two checks with some time in between; and if its row is still the same.
"""

from __future__ import annotations

import asyncio
import logging

from ...cni import AttachmentKey, CNIError, Failures
from ...cni.skel import Request
from ...failpoints import failpoint
from ...journal import Attachment, AttachmentPlace, boottime
from ...kernel.objects.link import link_names
from ...ops.node.namespaces import leads_there
from ..host_view import ask_kernel
from ..node import Node
from ..server.caller import about
from ..server.record import Timer
from .delete import delete
from .errors import explained

log = logging.getLogger(__name__)


async def collect(node: Node, request: Request, sent: int, timer: Timer) -> None:
    """The GC verb: deletes all attachments of this network that the runtime does not list as valid.

    `sent` is the time of the request, in nanoseconds since boot. Later attachments are kept, because the
    runtime could not know them.
    """
    valid = request.valid_attachments
    if valid is None:  # without a list, no attachment is known to be invalid
        return
    keep = {(it.container_id, it.ifname) for it in valid}
    asked = _asked(sent)
    places = await node.journal.ask(lambda ledger: ledger.places(request.network))
    stale = [it.key for it in places if (it.key.container_id, it.key.ifname) not in keep]
    timer.lap("list")
    failpoint("gc.listed")
    failures = await _delete_all(node, stale, asked)
    timer.lap("delete")
    failpoint("gc.done")
    if failures:
        raise failures[0] if len(failures) == 1 else Failures(failures)


def _asked(sent: int) -> float:
    """Returns the time of the request, or now if it is missing or in the future."""
    now = boottime()
    return min(sent, int(now * 1e9)) / 1e9 if sent > 0 else now


async def _delete_all(node: Node, keys: list[AttachmentKey], asked: float) -> list[CNIError]:
    """Deletes attachments that are older than the request: a key may have been attached again since."""

    async def one(key: AttachmentKey) -> CNIError | None:
        try:
            timer = Timer()
            if await delete(node, key, None, timer, sent_before=asked):
                node.tally.count("collected")
                node.events.record("RELEASE", "the runtime's GC does not list it as valid", timer.attachment)
            failpoint("gc.row")
        except Exception as error:
            return explained(error, key).at(context=f"failed to delete stale attachment {key}")
        return None

    # The dataplane removes in one batch what waits in its queue.
    failures: list[CNIError] = []
    for start in range(0, len(keys), 64):
        ended = await asyncio.gather(*map(one, keys[start : start + 64]))
        failures += [error for error in ended if error is not None]
    return failures


class Collector:
    """Releases attachments whose namespaces no longer exist."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._suspects: dict[int, float] = {}

    async def round(self) -> list[AttachmentKey]:
        """Checks all attachments once. Returns the keys of those that it released."""
        node = self._node
        missing = await asyncio.to_thread(self._missing)
        node.attachments.keep_replaced([it.id for it in missing])
        links = await ask_kernel(link_names) if missing else {}
        gone = {it.id: it for it in missing if it.host_link not in links and not node.locks.is_busy(it.key)}
        now = boottime()
        self._suspects = {number: self._suspects.get(number, now) for number in gone}
        ripe = [
            gone[number] for number, since in self._suspects.items() if now - since >= node.settings.grace
        ]
        released = []
        for place in ripe:
            failpoint("collect.found")
            timer = Timer()
            if await self._is_same(place) and await delete(node, place.key, None, timer, sent_before=now):
                released.append(place.key)
                node.tally.count("leaked")
                why = f"its namespace {place.netns} no longer exists"
                node.events.record("RELEASE", why, timer.attachment)
                log.info("released %s: %s", place.key, why, extra=about(place.key))
                failpoint("collect.done")
        return released

    def _missing(self) -> list[AttachmentPlace]:
        places = self._node.journal.survey(lambda ledger: ledger.places())
        return [it for it in places if it.state == "committed" and self._has_lost_its_namespace(it)]

    async def _is_same(self, place: AttachmentPlace) -> bool:
        found = await self._node.journal.ask(lambda ledger: ledger.find(place.key))
        return found is not None and found.id == place.id and self._has_lost_its_namespace(found)

    def _has_lost_its_namespace(self, it: AttachmentPlace | Attachment) -> bool:
        return self._node.attachments.is_replaced(it.id) or not leads_there(it)
