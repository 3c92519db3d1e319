"""Counters of the kernel: packets of a link, and packets that a queue dropped."""

from __future__ import annotations

from struct import Struct

from msgspec import Struct as Record

from ..errors import Malformed
from . import link, qdisc
from .message import NOTHING, Attributes

_STATISTICS = 23  # of 64 bits each
# Packets received and sent, bytes received and sent, errors and drops likewise.
_COUNTED = Struct("=8Q")
_QUEUE_STATISTICS, _QUEUE = 7, 3
_QUEUED = Struct("=5I")  # waiting packets, waiting bytes, dropped, requeued, over the limit


class LinkCounters(Record, frozen=True):
    """The counters of a link since its creation."""

    received_packets: int
    sent_packets: int
    received_bytes: int
    sent_bytes: int
    received_errors: int
    sent_errors: int
    received_dropped: int
    sent_dropped: int


class QueueCounters(Record, frozen=True):
    """What waits in a queue now, and what it dropped since its creation."""

    packets: int
    bytes: int
    dropped: int


def of_link(index: int) -> bytes:
    """Builds a query for a link with all its counters."""
    return link.by_index(index)


def decode(payload: bytes) -> LinkCounters | None:
    """Returns the counters; None if the kernel did not send them."""
    data = Attributes.some(payload, link.SIZE, (_STATISTICS,)).raw(_STATISTICS)
    if data is None:
        return None
    if len(data) < _COUNTED.size:
        raise Malformed(f"statistics of {len(data)} bytes")
    return LinkCounters(*_COUNTED.unpack_from(data))


def decode_queue(payload: bytes) -> QueueCounters | None:
    found = Attributes(payload[qdisc.INFO.size :]).nested(_QUEUE_STATISTICS) or NOTHING
    data = found.raw(_QUEUE)
    if data is None or len(data) < _QUEUED.size:
        return None
    packets, size, dropped, _, _ = _QUEUED.unpack_from(data)
    return QueueCounters(packets, size, dropped)
