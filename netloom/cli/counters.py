"""How much an attachment has sent and received, as the kernel counts it on its links."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..kernel import KernelError, Namespace
from ..kernel.netlink import link, qdisc, statistics
from ..kernel.netlink.statistics import Traffic, Waiting
from ..networks.names import queue_of


class Direction(Struct, frozen=True):
    """One direction, as the container sees it."""

    packets: Annotated[int, Meta(description="packets that passed")]
    bytes: Annotated[int, Meta(description="bytes of these")]
    dropped: Annotated[int, Meta(description="packets that were dropped at either end of the pair")]
    errors: Annotated[int, Meta(description="packets that could not be handed over")]
    limited: Annotated[int | None, Meta(description="dropped by the limit of its rate; null: it has none")]
    waiting: Annotated[int | None, Meta(description="bytes that wait for that limit; null: it has none")]


class Counters(Struct, frozen=True):
    """Since the link was made."""

    sent: Annotated[Direction, Meta(description="by the container")]
    received: Annotated[Direction, Meta(description="by the container")]
    refused: Annotated[
        int | None,
        Meta(
            description="packets that the container sent and the node's table dropped, since their source "
            "was not its own, until a day passes without one; null: the table does not count them"
        ),
    ] = None


def counters_of(
    host_link: str, ifname: str, host: Namespace, container: Namespace | None, refused: int | None
) -> Counters | None:
    """None if the link is not there. `refused` is what the node's table has counted of it."""
    ours = _traffic(host, host_link)
    if ours is None:
        return None
    theirs = None if container is None else _traffic(container, ifname)
    # What a container receives waits where it leaves the host; what it sends, in a link of its own.
    into, out_of = _queue(host, host_link), _queue(host, queue_of(host_link))
    return Counters(
        sent=Direction(
            packets=ours.received_packets,
            bytes=ours.received_bytes,
            dropped=ours.received_dropped + (0 if theirs is None else theirs.sent_dropped),
            errors=ours.received_errors + (0 if theirs is None else theirs.sent_errors),
            limited=None if out_of is None else out_of.dropped,
            waiting=None if out_of is None else out_of.bytes,
        ),
        received=Direction(
            packets=ours.sent_packets,
            bytes=ours.sent_bytes,
            dropped=ours.sent_dropped + (0 if theirs is None else theirs.received_dropped),
            errors=ours.sent_errors + (0 if theirs is None else theirs.received_errors),
            limited=None if into is None else into.dropped,
            waiting=None if into is None else into.bytes,
        ),
        refused=refused,
    )


def _traffic(namespace: Namespace, name: str) -> Traffic | None:
    try:
        answer = namespace.route.ask(link.GET, statistics.of_link(namespace.route.index(name)))
    except KernelError:
        return None
    return None if answer is None else statistics.decode(answer)


def _queue(namespace: Namespace, name: str) -> Waiting | None:
    """Of the one that a limit has made; the kernel's own have no handle."""
    try:
        index = namespace.route.index(name)
        for payload in namespace.route.dump(qdisc.GET, qdisc.of_link(index)):
            found = qdisc.decode(payload)
            if (found.index, found.parent) == (index, qdisc.ROOT) and found.handle and found.kind == "tbf":
                return statistics.decode_queue(payload)
    except KernelError:
        return None
    return None
