"""The story of an address: who has it, who had it, at which moment, and what it is if nobody has."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence

from msgspec.structs import replace

from ...agent.networks import NodeNetwork
from ...agent.scope import SCOPE
from ...ipam import FREE, HELD, Pool, SqlHoldings
from ...journal import Attachment, Ledger, Operation, boottime, search
from ...kernel import Namespace
from ...modes import routed
from ..live import findings_of, look_at
from ..moments import shown
from ..queued import Queued
from .explanation import AddressState, AddressStory, AtMoment, Explanation, Tenure
from .story import present_of

# A DEL that the runtime asked for, or one of the ways in which the agent gives an address back by itself.
_ENDS = frozenset({"DEL", "RELEASE", "REPLAY", "UNDO"})
# What an agent writes down at its start when the machine was booted since the one before it.
_OTHER_BOOT = re.compile(r"; [1-9]\d* attachments of another boot released")
_NEXT_HOPS = (routed.GATEWAY4, routed.GATEWAY6)


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
    tenures = _tenures(address, ledger, row)
    since = search.first_logged(ledger)
    state, reason, rests_until = _state(ip, ledger, host, networks, row)
    moment = None if at is None else _at(at, tenures, since)
    live = None if row is None else look_at(row, host)
    return Explanation(
        asked=asked,
        kind="address",
        name=address,
        summary=_summary(address, state, reason, rests_until, row, moment, since),
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
        findings=[] if row is None or live is None else findings_of(row, live),
        since=since,
    )


def _covering(ip: bytes, networks: Sequence[NodeNetwork]) -> list[tuple[str, Pool]]:
    return [
        (it.name, pool)
        for it in networks
        if it.network is not None
        for pool in it.network.pools
        if pool.covers(ip)
    ]


def _state(
    ip: bytes, ledger: Ledger, host: Namespace, networks: Sequence[NodeNetwork], row: Attachment | None
) -> tuple[AddressState, str, float | None]:
    """With the reason in words, and until when it rests."""
    covering = _covering(ip, networks)
    if row is not None:
        return "held", "" if covering else "it is of no pool that is configured now", None
    if socket.inet_ntop(socket.AF_INET if len(ip) == 4 else socket.AF_INET6, ip) in _NEXT_HOPS:
        return "next hop", "containers send everything to it; the host answers for it on every link", None
    from ...agent.host import look_at as look_at_host

    if ip in look_at_host(host).addresses:
        return "host", "it is an address of this host, and no container gets it", None
    if not covering:
        return "outside", "no pool of a network on this node has it", None
    usable = [pool for _, pool in covering if ip in pool]
    if not usable:
        why = [f"it {refusal}" for _, pool in covering if (refusal := pool.refusal(ip)) is not None]
        return "never given", "; ".join(why), None
    released = SqlHoldings(ledger.connection).released_at(SCOPE, ip)
    rest = max(it.network.cooldown for it in networks if it.network and set(usable) & set(it.network.pools))
    left = 0.0 if released in (FREE, HELD) else released + rest - boottime()
    if left <= 0:
        return "free", "", None
    return "resting", "it was released, and rests before it is given again", time.time() + left


def _tenures(address: str, ledger: Ledger, row: Attachment | None) -> list[Tenure]:
    """The oldest first. Who has it now is the journal's word, whatever the log says."""
    found: list[Tenure] = []
    operations = [it for it in ledger.operations_of_address(address) if not it.code]
    boots = [it for it in search.events_of_node(ledger, "START") if _OTHER_BOOT.search(it.details)]
    for it in sorted([*operations, *boots], key=lambda it: it.id):
        is_open = bool(found) and found[-1].ended is None and not found[-1].how
        if it.verb == "START":
            if is_open:
                found[-1] = _ended(found[-1], it.started, "the machine was booted anew")
        elif it.verb == "ADD" or it.verb in _ENDS:
            if not (is_open and _is_of(found[-1], it)):
                found[-1:] = [_lost(one) if is_open else one for one in found[-1:]]
                # Of an end without a beginning, the ADD is older than the log.
                found.append(_begun(it, it.started if it.verb == "ADD" else None))
            if it.verb in _ENDS:
                found[-1] = _ended(found[-1], it.started, _how(it))
    return _with_present(found, row)


def _with_present(found: list[Tenure], row: Attachment | None) -> list[Tenure]:
    before, last = found[:-1], found[-1:]
    if row is None:
        return [*before, *map(_lost, last)]
    if last and last[0].ended is None and not last[0].how and _is_of(last[0], row):
        return [*before, replace(last[0], current=True)]
    return [*before, *map(_lost, last), replace(_begun(row, row.created_at), current=True)]


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


def _ended(it: Tenure, at: float, how: str) -> Tenure:
    return replace(it, ended=at, how=how)


def _lost(it: Tenure) -> Tenure:
    """One whose end nobody wrote down, as when an agent was killed before it could."""
    return it if it.how else replace(it, how="it has it no more, and the log does not say since when")


def _is_of(tenure: Tenure, it: Operation | Attachment) -> bool:
    return (tenure.network, tenure.container_id, tenure.ifname) == (it.network, it.container_id, it.ifname)


def _how(it: Operation) -> str:
    by = f" by {it.caller}" if it.caller else ""
    return f"DEL{by}" if it.verb == "DEL" else it.details or it.verb


def _at(at: float, tenures: Sequence[Tenure], since: float | None) -> AtMoment:
    for number, it in enumerate(tenures):
        # One whose ADD is older than the log had it from where the log begins, at the latest.
        began = since if it.began is None else it.began
        if began is None or at < began:
            continue
        following = tenures[number + 1].began if number + 1 < len(tenures) else None
        if it.current or (it.ended is not None and at < it.ended):
            return AtMoment(at, True, it)
        if it.ended is None and (following is None or at < following):
            return AtMoment(at, False, it)  # it had it before; nobody knows for how long
    return AtMoment(at, since is not None and at >= since, None)


def _summary(
    address: str,
    state: AddressState,
    reason: str,
    rests_until: float | None,
    row: Attachment | None,
    moment: AtMoment | None,
    since: float | None,
) -> str:
    now = {
        "held": "" if row is None else f"held by {named(row)} since {shown(row.created_at)}",
        "resting": "" if rests_until is None else f"resting until {shown(rests_until)}",
        "free": "free",
        "host": "this host's own",
        "next hop": "the next hop of every container",
        "never given": "in a pool, and never given",
        "outside": "of no pool of this node",
    }[state]
    said = f"{address} is {now}" + (f": {reason}" if reason and state in ("never given", "held") else "")
    return said if moment is None else f"{_then(address, moment, since)}; now it is {now}"


def _then(address: str, moment: AtMoment, since: float | None) -> str:
    at = shown(moment.time)
    if moment.holder is not None and moment.known:
        return f"at {at}, {address} was held by {named(moment.holder)}"
    if moment.holder is not None:
        return f"before {at}, {address} was held by {named(moment.holder)}, and nobody knows until when"
    if moment.known:
        return f"at {at}, nobody had {address}"
    begins = "is empty" if since is None else f"begins at {shown(since)}"
    return f"who had {address} at {at} is not known: the log of operations {begins}"


def named(it: Tenure | Attachment) -> str:
    """The pod, as people think of it, and the attachment."""
    pod = "/".join(filter(None, (it.namespace, it.pod)))
    key = f"{it.network}/{it.container_id}/{it.ifname}"
    return f"{pod} ({key})" if pod else key
