"""The story of an address: who holds it, who held it and when, read from the log of operations."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...api.findings import Finding
from ...api.times import shown
from ...ipam import FREE, HELD, Pool, SqlHoldings
from ...journal import Attachment, Ledger, Operation, boottime, search
from ...journal.search import AgentOutage
from ...kernel import Namespace
from ...networks.modes import next_hops
from ...networks.names import SCOPE
from ..inspect.attachment_state import Live, findings_of, live_state, refusals, refused_at, without_stale
from ..inspect.listing import Queued
from ..node.networks import NodeNetwork
from .explanation import AddressState, AddressStory, AtMoment, Explanation, Tenure
from .story import firewalls_of, present_of

# A DEL of the runtime, and the operations by which the agent itself releases an address.
_ENDS = frozenset({"DEL", "RELEASE", "REPLAY", "UNDO"})
# Seconds: the rounding of recorded times, and small corrections of the clock.
_ROUNDED, _LEEWAY = 0.001, 1.0
# Seconds before its end in which an agent may have done operations that it had not recorded yet.
_UNWRITTEN = 2.0


class _Case(NamedTuple):
    """A tenure under construction; `latest`: the latest time at which it can have been attached."""

    tenure: Tenure
    latest: float


def tenures_of(address: str, ledger: Ledger, row: Attachment | None) -> list[Tenure]:
    """Returns tenures, the oldest first. The journal, not the log, decides who holds the address now."""
    found: list[_Case] = []
    operations = [it for it in ledger.operations_of_address(address) if not it.code]
    boots = [it for it in ledger.operations_of_node("START") if it.reason == "reboot"]
    for it in sorted([*operations, *boots], key=lambda it: it.id):
        if it.verb == "START":
            found = [_ended(one, it.started, "the machine was rebooted") for one in found]
        elif it.verb == "ADD" or it.verb in _ENDS:
            _take(found, it)
    return sorted((_lost(one.tenure) for one in _with_present(found, row)), key=_order)


def _take(found: list[_Case], it: Operation) -> None:
    attached = it.attached
    number = _same(found, it, attached)
    if number is None:
        # Lines of older versions lack `attached`; the time of their ADD is close to it.
        began = it.started if attached is None and it.verb == "ADD" else attached
        latest = it.started + it.duration / 1000 + _LEEWAY if attached is None else attached
        found.append(_Case(_begun(it, began), latest))
        number = -1
    if it.verb in _ENDS:
        found[number] = _ended(found[number], it.started, _how(it))


def _same(found: Sequence[_Case], it: Operation | Attachment, attached: float | None) -> int | None:
    """Returns the index of the same attachment's tenure: the last of its key, unless its times differ."""
    keyed = [number for number, one in enumerate(found) if _key(one.tenure) == _key(it)]
    if not keyed:
        return None
    tenure, latest = found[keyed[-1]]
    if attached is None:
        is_same = tenure.ended is None
    else:
        is_same = (0.0 if tenure.began is None else tenure.began) - _ROUNDED <= attached <= latest + _ROUNDED
    return keyed[-1] if is_same else None


def _with_present(found: list[_Case], row: Attachment | None) -> list[_Case]:
    if row is None:
        return found
    number = _same(found, row, row.created_at)
    if number is None or found[number].tenure.ended is not None:
        return [*found, _Case(replace(_begun(row, row.created_at), current=True), row.created_at)]
    found[number] = found[number]._replace(tenure=replace(found[number].tenure, current=True))
    return found


def _begun(it: Operation | Attachment, began: float | None) -> Tenure:
    return Tenure(
        network=it.network,
        container_id=it.container_id,
        ifname=it.ifname,
        namespace=it.namespace,
        pod=it.pod,
        began=began,
        ended=None,
        how="",
        current=False,
    )


def _ended(it: _Case, at: float, how: str) -> _Case:
    """A repeated DEL does not change the end."""
    tenure = it.tenure
    return it if tenure.ended is not None else it._replace(tenure=replace(tenure, ended=at, how=how))


def _lost(it: Tenure) -> Tenure:
    """Marks a tenure whose end was not recorded, as when an agent was killed before it could."""
    if it.current or it.ended is not None:
        return it
    return replace(it, how="it no longer has the address; the log does not say since when")


def _order(it: Tenure) -> float:
    return next((at for at in (it.began, it.ended) if at is not None), 0.0)


def _key(it: Tenure | Operation | Attachment) -> tuple[str, str, str]:
    return it.network, it.container_id, it.ifname


def _how(it: Operation) -> str:
    by = f" by {it.caller}" if it.caller else ""
    return f"DEL{by}" if it.verb == "DEL" else it.details or it.verb


def at_moment(
    at: float, tenures: Sequence[Tenure], since: float | None, outages: Sequence[AgentOutage]
) -> AtMoment:
    """Returns the holder at that time. Where the log has gaps, it names no uncertain holder as known."""
    for it in tenures:
        if (
            it.began is not None
            and it.began <= at
            and (it.current or (it.ended is not None and at < it.ended))
        ):
            return AtMoment(at, True, it)
    before = [it for it in tenures if _order(it) <= at]
    if before and before[-1].ended is None:  # the last holder, until an unknown time
        return AtMoment(at, False, before[-1], "the log does not have its end")
    following = next((it for it in tenures if _order(it) > at), None)
    if following is not None and following.began is None:
        return AtMoment(
            at, False, None, f"the log has an end at {shown(_order(following))}, but no beginning"
        )
    if since is None or at < since:
        begins = "is empty" if since is None else f"begins at {shown(since)}"
        return AtMoment(at, False, None, f"the log of operations {begins}")
    for out in outages:
        if not out.stopped and out.began - _UNWRITTEN <= at and (out.ended is None or at < out.ended):
            until = "now" if out.ended is None else shown(out.ended)
            when = f"between {shown(out.began)} and {until}"
            why = f"an agent did not shut down cleanly, and ended {when}; the log lacks its last operations"
            return AtMoment(at, False, None, why)
    return AtMoment(at, True, None)


class _Now(NamedTuple):
    """The state of an address, the reason for people, the end of its rest, and findings."""

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
    live = None if row is None else live_state(row, host)
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
        return _Now("held", "" if covering else "it is in no configured pool")
    if socket.inet_ntop(socket.AF_INET if len(ip) == 4 else socket.AF_INET6, ip) in next_hops():
        return _Now("next hop", "containers send all packets to it; the host answers for it on every link")
    from ..node.host import read_host
    from ..node.orphans import finding_of, orphans_at

    found = read_host(host)
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
    return _Now("resting", "it was released, and rests before it is assigned again", time.time() + left)


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
        "neighbour": "in use by a machine beside this host",
        "orphaned": "in use by a container that is not in the journal",
        "next hop": "the next hop of every container",
        "never given": "in a pool, but never assigned",
        "outside": "in no pool of this node",
    }[state]
    has_reason = reason and state in ("never given", "held", "orphaned", "neighbour")
    said = f"{address} is {now}" + (f": {reason}" if has_reason else "")
    return said if moment is None else f"{_then(address, moment)}; now it is {now}"


def _then(address: str, moment: AtMoment) -> str:
    at = shown(moment.time)
    if moment.holder is not None and moment.known:
        return f"at {at}, {address} was held by {named(moment.holder)}"
    if moment.holder is not None:
        return f"before {at}, {address} was held by {named(moment.holder)}; it is not known until when"
    if moment.known:
        return f"at {at}, {address} was not held"
    return f"who had {address} at {at} is not known: {moment.why}"


def named(it: Tenure | Attachment) -> str:
    """Returns the pod's name and the attachment, for people."""
    pod = "/".join(filter(None, (it.namespace, it.pod)))
    key = f"{it.network}/{it.container_id}/{it.ifname}"
    return f"{pod} ({key})" if pod else key
