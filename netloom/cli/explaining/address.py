"""The story of an address: who has it, who had it, at which moment, and what it is if nobody has.

Who had it, from when to when, is told by the log: see `tenures`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import NamedTuple

from ...api.findings import Finding
from ...ipam import FREE, HELD, Pool, SqlHoldings
from ...journal import Attachment, Ledger, boottime, search
from ...kernel import Namespace
from ...networks.modes import routed
from ...networks.scope import SCOPE
from ...ops.node.networks import NodeNetwork
from ..circumstances import without_stale
from ..live import Live, findings_of, look_at
from ..moments import shown
from ..queued import Queued
from ..refused import refusals, refused_at
from .explanation import AddressState, AddressStory, AtMoment, Explanation, Tenure
from .firewalls import firewalls_of
from .story import present_of
from .tenures import at_moment, tenures_of

_NEXT_HOPS = (routed.GATEWAY4, routed.GATEWAY6)


class _Now(NamedTuple):
    """What an address is, with the reason in words, until when it rests, and what is wrong with it."""

    state: AddressState
    reason: str = ""
    rests_until: float | None = None
    findings: tuple[Finding, ...] = ()


def story_of(
    asked: str,
    ip: bytes,
    at: float | None,
    ledger: Ledger,
    host: Namespace,
    networks: Sequence[NodeNetwork],
    dels: Sequence[Queued],
) -> Explanation:
    address = socket.inet_ntop(socket.AF_INET if len(ip) == 4 else socket.AF_INET6, ip)
    number = ledger.holder(SCOPE, ip)
    row = None if number is None else ledger.by_id(number)
    tenures = tenures_of(address, ledger, row)
    since = search.first_logged(ledger)
    state, reason, rests_until, of_orphan = _now(ip, ledger, host, networks, row)
    moment = None if at is None else at_moment(at, tenures, since, search.outages(ledger))
    live = None if row is None else look_at(row, host)
    return Explanation(
        asked=asked,
        kind="address",
        name=address,
        summary=_summary(address, state, reason, rests_until, row, moment),
        attachments=[] if row is None or live is None else [present_of(row, live, dels)],
        address=AddressStory(
            address=address,
            state=state,
            pools=list(dict.fromkeys(pool.cidr for _, pool in _covering(ip, networks))),
            networks=list(dict.fromkeys(name for name, _ in _covering(ip, networks))),
            reason=reason,
            rests_until=rests_until,
            at=moment,
            tenures=tenures[::-1],
        ),
        findings=list(of_orphan)
        if row is None or live is None
        else [*_findings(row, live, host, dels), *(firewalls_of(row, ledger, host) if live.has_link else ())],
        since=since,
    )


def _findings(row: Attachment, live: Live, host: Namespace, dels: Sequence[Queued]) -> list[Finding]:
    return [
        *without_stale(findings_of(row, live), [row], dels),
        *refusals(row, (refused_at(host) or {}).get(row.host_link)),
    ]


def _covering(ip: bytes, networks: Sequence[NodeNetwork]) -> list[tuple[str, Pool]]:
    return [
        (it.name, pool)
        for it in networks
        if it.network is not None
        for pool in it.network.pools
        if pool.covers(ip)
    ]


def _now(
    ip: bytes, ledger: Ledger, host: Namespace, networks: Sequence[NodeNetwork], row: Attachment | None
) -> _Now:
    covering = _covering(ip, networks)
    if row is not None:
        return _Now("held", "" if covering else "it is of no pool that is configured now")
    if socket.inet_ntop(socket.AF_INET if len(ip) == 4 else socket.AF_INET6, ip) in _NEXT_HOPS:
        return _Now("next hop", "containers send everything to it; the host answers for it on every link")
    from ...ops.node.host import look_at as look_at_host
    from ...ops.node.orphans import finding_of, orphans_at

    found = look_at_host(host)
    if ip in found.addresses:
        return _Now("host", "it is an address of this host, and no container gets it")
    if who := found.neighbour_with(ip):
        return _Now("neighbour", f"no container gets it, since {who} has it")
    for link, ips in orphans_at(host, lambda ask: ask(ledger)).items():
        if ip in ips:
            reason = f"it is routed to {link}, a link that is not in the journal (orphaned)"
            return _Now("orphaned", reason, findings=(finding_of(link, ips),))
    if not covering:
        return _Now("outside", "no pool of a network on this node has it")
    usable = [pool for _, pool in covering if ip in pool]
    if not usable:
        why = [f"it {refusal}" for _, pool in covering if (refusal := pool.refusal(ip)) is not None]
        return _Now("never given", "; ".join(why))
    released = SqlHoldings(ledger.connection).released_at(SCOPE, ip)
    rest = max(it.network.cooldown for it in networks if it.network and set(usable) & set(it.network.pools))
    left = 0.0 if released in (FREE, HELD) else released + rest - boottime()
    if left <= 0:
        return _Now("free")
    return _Now("resting", "it was released, and rests before it is given again", time.time() + left)


def _summary(
    address: str,
    state: AddressState,
    reason: str,
    rests_until: float | None,
    row: Attachment | None,
    moment: AtMoment | None,
) -> str:
    now = {
        "held": "" if row is None else f"held by {named(row)} since {shown(row.created_at)}",
        "resting": "" if rests_until is None else f"resting until {shown(rests_until)}",
        "free": "free",
        "host": "this host's own",
        "neighbour": "of a machine beside this host",
        "orphaned": "of a container that the journal does not know",
        "next hop": "the next hop of every container",
        "never given": "in a pool, and never given",
        "outside": "of no pool of this node",
    }[state]
    has_reason = reason and state in ("never given", "held", "orphaned", "neighbour")
    said = f"{address} is {now}" + (f": {reason}" if has_reason else "")
    return said if moment is None else f"{_then(address, moment)}; now it is {now}"


def _then(address: str, moment: AtMoment) -> str:
    at = shown(moment.time)
    if moment.holder is not None and moment.known:
        return f"at {at}, {address} was held by {named(moment.holder)}"
    if moment.holder is not None:
        return f"before {at}, {address} was held by {named(moment.holder)}, and nobody knows until when"
    if moment.known:
        return f"at {at}, nobody had {address}"
    return f"who had {address} at {at} is not known: {moment.why}"


def named(it: Tenure | Attachment) -> str:
    """The pod, as people think of it, and the attachment."""
    pod = "/".join(filter(None, (it.namespace, it.pod)))
    key = f"{it.network}/{it.container_id}/{it.ifname}"
    return f"{pod} ({key})" if pod else key
