"""Bandwidth limits of a container.

Ingress is queued on the host's end of the pair. Egress is redirected through a separate link on the host,
since a process in the container could remove a queue there.
"""

from __future__ import annotations

from ...kernel import Ifb, Ingress, Object, Plan, Redirect, Shaper, Up
from ..names import queue_of
from .options import Limit, Limits

# Burst and queue length, in seconds of the rate.
_BURST = 0.02
_WAITING = 0.05
# Bytes that a sender may pass on in one piece, most of which should not be dropped.
_PIECE = 1 << 16


def objects(it: Limits, host_link: str, mtu: int) -> list[Object]:
    """Returns objects that must be created before the link is up."""
    made: list[Object] = []
    if it.ingress is not None:
        made.append(_shaper(host_link, it.ingress, mtu))
    if it.egress is not None:
        queue = queue_of(host_link)
        made += [
            Ifb(queue, mtu=mtu),
            _shaper(queue, it.egress, mtu),
            Up(queue, link_local=False),
            Ingress(host_link),
            Redirect(host_link, queue),
        ]
    return made


def _shaper(link: str, limit: Limit, mtu: int) -> Shaper:
    rate = limit.rate // 8
    burst = max(limit.burst // 8 or int(rate * _BURST), 2 * mtu)
    return Shaper(link, rate=rate, burst=burst, limit=burst + max(int(rate * _WAITING), _PIECE))


def described(plan: Plan) -> dict[str, int] | None:
    """Returns the limits of a plan, with the names of the capability; None if there are none."""
    found: dict[str, int] = {}
    links = {it.link for it in plan.objects if isinstance(it, Redirect)}
    queues = {queue_of(link) for link in links}
    for it in plan.objects:
        if isinstance(it, Shaper):
            direction = "egress" if it.link in queues else "ingress"
            found |= {f"{direction}Rate": it.rate * 8, f"{direction}Burst": it.burst * 8}
    return found or None
