"""Reads the node's numbers again and again, from the journal and from the agent, for `netloom top`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ...api.client import AgentError, Connection
from ...api.paths import Place
from ...api.protocol import Info
from ...ops.errors import OperationFailed
from ...ops.explain.events import Event, EventFilter, Stream
from ...ops.inspect.listing import queued
from ...ops.journals.reading import ledger
from ...ops.status.document import PoolShown

# Of events that are shown, and of those that are counted: a minute of the busiest node.
_SHOWN = 200
_COUNTED = 20000
# Pools change slowly, and to count them costs more than all else.
_POOLS_EVERY = 5.0
_PATIENCE = 0.5


class Meter:
    """What it has to tell goes into a reading, and not to a terminal that is drawn on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._told = ""
        self._stream = Stream(place, self._hear)
        self._events: deque[Event] | None = None
        self._pools: list[PoolShown] = []
        self._pools_at = 0.0

    def read(self) -> Reading:
        now = time.time()
        events = self._read_events(now)
        info, why = self._ask()
        counted = self._counted()
        return Reading(
            time=now,
            agent=None if info is None else _agent(info),
            why="; ".join(filter(None, (why, self._told))),
            attachments=counted,
            intents=len(queued(self._place.intents)),
            rates=rates_of(events, now),
            latencies=latencies_of(events, now),
            seconds=seconds_of(events, now),
            repairs=sum(it.verb in ("REPAIR", "TABLE") and now - it.started <= WINDOW for it in events),
            pools=self._read_pools(now),
            events=list(events)[: -_SHOWN - 1 : -1],
        )

    def _hear(self, what: str) -> None:
        self._told = what

    def _read_events(self, now: float) -> deque[Event]:
        self._told = ""
        if self._events is None:
            try:
                found = self._stream.before(EventFilter(), _SHOWN)
                # On a busy node, the last minute holds more than is shown.
                if found and now - found[0].started < WINDOW:
                    found = self._stream.before(EventFilter(since=now - WINDOW), None) or found
            except OperationFailed as error:
                self._told = str(error)
                return deque()
            self._events = deque(found, _COUNTED)
        else:
            self._events.extend(self._stream.since(EventFilter()))
        return self._events

    def _counted(self) -> dict[str, int]:
        try:
            with ledger(self._place) as journal:
                return (
                    {} if journal is None else {str(state): count for state, count in journal.count().items()}
                )
        except OperationFailed as error:
            self._told = str(error)
            return {}

    def _read_pools(self, now: float) -> list[PoolShown]:
        from ...ops.status.pools import report

        if abs(now - self._pools_at) >= _POOLS_EVERY:
            try:
                self._pools = report(self._place).pools
            except OperationFailed:  # which was told of already
                self._pools = []
            self._pools_at = now
        return self._pools

    def _ask(self) -> tuple[Info | None, str]:
        try:
            with Connection(self._place.socket, _PATIENCE) as connection:
                return connection.info(), ""
        except AgentError as error:
            return None, str(error)


def _agent(info: Info) -> AgentReading:
    return AgentReading(
        version=info.version,
        process=info.process,
        started=info.started,
        under_way=info.under_way,
        troubles=list(info.troubles),
        counters=dict(info.counters),
    )


# Seconds: what is counted, and what a rate is taken over, so that it moves with what happens.
WINDOW, RECENT = 60.0, 10.0
_AGENTS = frozenset({"START", "STOP", "REPAIR", "TABLE", "RELEASE", "REPLAY", "UNDO", "RESTORE"})


class Rate(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a verb goes."""

    verb: Annotated[str, Meta(description="of CNI, or of the agent itself")]
    per_second: Annotated[float, Meta(description="how many a second, over the last 10 seconds")]
    count: Annotated[int, Meta(description="how many in the last minute")]
    failed: Annotated[int, Meta(description="how many of these failed")]
    p50: Annotated[float, Meta(description="milliseconds that half of them took at most")]
    p99: Annotated[float, Meta(description="milliseconds that 99 of 100 took at most")]


class Latency(Struct, frozen=True, kw_only=True):
    """How long a part of an operation takes, over the last minute."""

    verb: Annotated[str, Meta(description="the operation")]
    phase: Annotated[str, Meta(description="its part")]
    p50: Annotated[float, Meta(description="milliseconds that half of them took at most")]
    p99: Annotated[float, Meta(description="milliseconds that 99 of 100 took at most")]


class AgentReading(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the agent says of itself."""

    version: Annotated[str, Meta(description="of netloom")]
    process: Annotated[int, Meta(description="its number")]
    started: Annotated[float, Meta(description="since when it runs, in seconds since 1970")]
    under_way: Annotated[int, Meta(description="requests that wait for the kernel, or are at it")]
    troubles: Annotated[list[str], Meta(description="why nothing can be attached; empty: nothing is wrong")]
    counters: Annotated[dict[str, int], Meta(description="what it counted since it began")]


class Reading(Struct, frozen=True, kw_only=True):
    """The node, and its last minute."""

    time: Annotated[float, Meta(description="when it was looked at, in seconds since 1970")]
    agent: Annotated[AgentReading | None, Meta(description="null: none answers")]
    why: Annotated[str, Meta(description="why none answers, or what keeps the journal from being read")]
    attachments: Annotated[dict[str, int], Meta(description="how many, by how far they are")]
    intents: Annotated[int, Meta(description="DELs that wait for an agent")]
    rates: Annotated[list[Rate], Meta(description="by verb")]
    latencies: Annotated[list[Latency], Meta(description="of ADD and DEL, by their parts")]
    seconds: Annotated[list[int], Meta(description="operations in each second of the last minute")]
    repairs: Annotated[int, Meta(description="repairs in the last minute")]
    pools: Annotated[list[PoolShown], Meta(description="how full the pools are")]
    events: Annotated[list[Event], Meta(description="the last ones, the latest first")]


def rates_of(events: Sequence[Event], now: float) -> list[Rate]:
    by_verb: dict[str, list[Event]] = {}
    for it in events:
        if now - it.started <= WINDOW:
            by_verb.setdefault(it.verb, []).append(it)
    # What runtimes ask for first, then what the agent does by itself.
    return [
        Rate(
            verb=verb,
            per_second=round(sum(now - it.started <= RECENT for it in found) / RECENT, 1),
            count=len(found),
            failed=sum(it.failed for it in found),
            p50=percentile([it.duration for it in found], 50),
            p99=percentile([it.duration for it in found], 99),
        )
        for verb, found in sorted(by_verb.items(), key=lambda item: (item[0] in _AGENTS, item[0]))
    ]


def latencies_of(events: Iterable[Event], now: float, verbs: Sequence[str] = ("ADD", "DEL")) -> list[Latency]:
    found: dict[tuple[str, str], list[float]] = {}
    for it in events:
        if it.verb in verbs and not it.failed and now - it.started <= WINDOW:
            for phase, milliseconds in it.phases.items():
                found.setdefault((it.verb, phase), []).append(milliseconds)
    return [
        Latency(verb=verb, phase=phase, p50=percentile(times, 50), p99=percentile(times, 99))
        for (verb, phase), times in sorted(found.items(), key=lambda item: verbs.index(item[0][0]))
    ]


def seconds_of(events: Iterable[Event], now: float) -> list[int]:
    """How many there were in each of the last seconds, the latest last."""
    counted = [0] * int(WINDOW)
    for it in events:
        past = int(now - it.started)
        if 0 <= past < len(counted) and it.verb not in _AGENTS:
            counted[-1 - past] += 1
    return counted


def percentile(values: Sequence[float], part: int) -> float:
    """The nearest rank.

    >>> percentile([1.0, 2.0, 3.0, 100.0], 50), percentile([1.0, 2.0], 99), percentile([], 50)
    (2.0, 2.0, 0.0)
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * part // 100) - 1, 0)]
