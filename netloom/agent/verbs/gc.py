"""GC by the runtime's word, and the agent's own: what nobody has any more is given back.

The agent's own is careful: an attachment is valid until proven dead. Its path leads elsewhere or nowhere,
and our end of the pair is gone, seen twice with some time in between; and its row must still be the same.
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
    """The GC verb: everything of this network goes that the runtime does not call valid.

    `sent` is when, in nanoseconds since boot: what was attached later, the runtime could not know.
    """
    valid = request.valid_attachments
    if valid is None:  # nothing was said of any: nothing can be judged
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
    """Now, if it was not said, or cannot be."""
    now = boottime()
    return min(sent, int(now * 1e9)) / 1e9 if sent > 0 else now


async def _delete_all(node: Node, keys: list[AttachmentKey], asked: float) -> list[CNIError]:
    """Those that were there when it was asked: a key may have come back since."""

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

    # As many at a time as the dataplane takes well; it removes those that wait together at once.
    failures: list[CNIError] = []
    for start in range(0, len(keys), 64):
        ended = await asyncio.gather(*map(one, keys[start : start + 64]))
        failures += [error for error in ended if error is not None]
    return failures


class Collector:
    """Finds attachments whose namespaces are gone."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._suspects: dict[int, float] = {}

    async def round(self) -> list[AttachmentKey]:
        """One look at all of them. Gives back which were released."""
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
