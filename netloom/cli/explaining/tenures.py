"""Who had an address, from when to when: read from the log of operations, which has gaps.

Lines are lost with an agent that was killed, and dropped when the log is full. So every line says since when
its attachment was there, and what no line says is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...journal import Attachment, Ledger, Operation
from ...journal.search import Outage
from ..moments import shown
from .explanation import AtMoment, Tenure

# A DEL that the runtime asked for, or one of the ways in which the agent gives an address back by itself.
_ENDS = frozenset({"DEL", "RELEASE", "REPLAY", "UNDO"})
# Seconds. What is written down of a moment is rounded; a clock is set by a little.
_ROUNDED, _LEEWAY = 0.001, 1.0
# So long before its end an agent may have done what it had not written down yet.
_UNWRITTEN = 2.0


class _Case(NamedTuple):
    """A tenure while it is put together; `latest`: when it was attached, or not later than that."""

    tenure: Tenure
    latest: float


def tenures_of(address: str, ledger: Ledger, row: Attachment | None) -> list[Tenure]:
    """The oldest first. Who has it now is the journal's word, whatever the log says."""
    found: list[_Case] = []
    operations = [it for it in ledger.operations_of_address(address) if not it.code]
    boots = [it for it in ledger.operations_of_node("START") if it.reason == "reboot"]
    for it in sorted([*operations, *boots], key=lambda it: it.id):
        if it.verb == "START":
            found = [_ended(one, it.started, "the machine was booted anew") for one in found]
        elif it.verb == "ADD" or it.verb in _ENDS:
            _take(found, it)
    return sorted((_lost(one.tenure) for one in _with_present(found, row)), key=_order)


def _take(found: list[_Case], it: Operation) -> None:
    attached = it.attached
    number = _same(found, it, attached)
    if number is None:
        # An older line does not say it: then its ADD does, as nearly as it can.
        began = it.started if attached is None and it.verb == "ADD" else attached
        latest = it.started + it.duration / 1000 + _LEEWAY if attached is None else attached
        found.append(_Case(_begun(it, began), latest))
        number = -1
    if it.verb in _ENDS:
        found[number] = _ended(found[number], it.started, _how(it))


def _same(found: Sequence[_Case], it: Operation | Attachment, attached: float | None) -> int | None:
    """Which of them is about the same attachment: the last of its key, unless that was another time."""
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
    """A DEL that is done once more ends nothing."""
    tenure = it.tenure
    return it if tenure.ended is not None else it._replace(tenure=replace(tenure, ended=at, how=how))


def _lost(it: Tenure) -> Tenure:
    """One whose end nobody wrote down, as when an agent was killed before it could."""
    if it.current or it.ended is not None:
        return it
    return replace(it, how="it has it no more, and the log does not say since when")


def _order(it: Tenure) -> float:
    return next((at for at in (it.began, it.ended) if at is not None), 0.0)


def _key(it: Tenure | Operation | Attachment) -> tuple[str, str, str]:
    return it.network, it.container_id, it.ifname


def _how(it: Operation) -> str:
    by = f" by {it.caller}" if it.caller else ""
    return f"DEL{by}" if it.verb == "DEL" else it.details or it.verb


def at_moment(
    at: float, tenures: Sequence[Tenure], since: float | None, outages: Sequence[Outage]
) -> AtMoment:
    """Who had it then. Where lines are missing, nobody is named who may not have had it."""
    for it in tenures:
        if (
            it.began is not None
            and it.began <= at
            and (it.current or (it.ended is not None and at < it.ended))
        ):
            return AtMoment(at, True, it)
    before = [it for it in tenures if _order(it) <= at]
    if before and before[-1].ended is None:  # it had it before; nobody knows for how long
        return AtMoment(at, False, before[-1], "the log does not have its end")
    following = next((it for it in tenures if _order(it) > at), None)
    if following is not None and following.began is None:
        return AtMoment(
            at, False, None, f"the log has an end at {shown(_order(following))}, and no beginning"
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
