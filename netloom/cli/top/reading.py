"""Reads the numbers for `netloom top` from the journal and the agent."""

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

# The most events that are shown, and that are counted: a minute of a very busy node.
_SHOWN = 200
_COUNTED = 20000
# Seconds between readings of the pools, which change slowly and are the most expensive to count.
_POOLS_EVERY = 5.0
_PATIENCE = 0.5


class Meter:
    """Takes readings. Problems become part of a reading, since the screen belongs to the live view."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._problem = ""
        self._stream = Stream(place, self._note_problem)
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
            why="; ".join(filter(None, (why, self._problem))),
            attachments=counted,
            intents=len(queued(self._place.intents)),
            rates=rates_of(events, now),
            latencies=latencies_of(events, now),
            seconds=seconds_of(events, now),
            repairs=sum(it.verb in ("REPAIR", "TABLE") and now - it.started <= WINDOW for it in events),
            pools=self._read_pools(now),
            events=list(events)[: -_SHOWN - 1 : -1],
        )

    def _note_problem(self, what: str) -> None:
        self._problem = what

    def _read_events(self, now: float) -> deque[Event]:
        self._problem = ""
        if self._events is None:
            try:
                found = self._stream.before(EventFilter(), _SHOWN)
                # On a busy node, the last minute holds more than is shown.
                if found and now - found[0].started < WINDOW:
                    found = self._stream.before(EventFilter(since=now - WINDOW), None) or found
            except OperationFailed as error:
                self._problem = str(error)
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
            self._problem = str(error)
            return {}

    def _read_pools(self, now: float) -> list[PoolShown]:
        from ...ops.status.pools import report

        if abs(now - self._pools_at) >= _POOLS_EVERY:
            try:
                self._pools = report(self._place).pools
            except OperationFailed:  # already noted by _counted
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


# Seconds that are counted, and that a rate is taken over, which is shorter to follow changes quickly.
WINDOW, RECENT = 60.0, 10.0
_AGENTS = frozenset({"START", "STOP", "REPAIR", "TABLE", "RELEASE", "REPLAY", "UNDO", "RESTORE"})


class Rate(Struct, frozen=True, kw_only=True, rename="camel"):
    """Rate, failures and durations of a verb."""

    verb: Annotated[str, Meta(description="verb of CNI, or an event of the agent")]
    per_second: Annotated[float, Meta(description="operations per second, over the last 10 seconds")]
    count: Annotated[int, Meta(description="operations in the last minute")]
    failed: Annotated[int, Meta(description="failed operations among these")]
    p50: Annotated[float, Meta(description="median in milliseconds")]
    p99: Annotated[float, Meta(description="99th percentile in milliseconds")]


class Latency(Struct, frozen=True, kw_only=True):
    """Duration of a phase of an operation, over the last minute."""

    verb: Annotated[str, Meta(description="the operation")]
    phase: Annotated[str, Meta(description="the phase")]
    p50: Annotated[float, Meta(description="median in milliseconds")]
    p99: Annotated[float, Meta(description="99th percentile in milliseconds")]


class AgentReading(Struct, frozen=True, kw_only=True, rename="camel"):
    """The agent's own state."""

    version: Annotated[str, Meta(description="version of netloom")]
    process: Annotated[int, Meta(description="its process ID")]
    started: Annotated[float, Meta(description="when it started, in seconds since 1970")]
    under_way: Annotated[int, Meta(description="requests in progress at the kernel, or waiting for it")]
    troubles: Annotated[
        list[str], Meta(description="why nothing can be attached; empty if the agent is ready")
    ]
    counters: Annotated[dict[str, int], Meta(description="its counters since it started")]


class Reading(Struct, frozen=True, kw_only=True):
    """The node's numbers over the last minute."""

    time: Annotated[float, Meta(description="when it was taken, in seconds since 1970")]
    agent: Annotated[AgentReading | None, Meta(description="null if no agent answers")]
    why: Annotated[str, Meta(description="why no agent answers, or why the journal cannot be read")]
    attachments: Annotated[dict[str, int], Meta(description="number of attachments by state")]
    intents: Annotated[int, Meta(description="queued DELs")]
    rates: Annotated[list[Rate], Meta(description="rates by verb")]
    latencies: Annotated[list[Latency], Meta(description="durations of ADD and DEL by phase")]
    seconds: Annotated[list[int], Meta(description="operations in each second of the last minute")]
    repairs: Annotated[int, Meta(description="repairs in the last minute")]
    pools: Annotated[list[PoolShown], Meta(description="usage of the pools")]
    events: Annotated[list[Event], Meta(description="the last operations, latest first")]


def rates_of(events: Sequence[Event], now: float) -> list[Rate]:
    by_verb: dict[str, list[Event]] = {}
    for it in events:
        if now - it.started <= WINDOW:
            by_verb.setdefault(it.verb, []).append(it)
    # Requests of runtimes first, then operations of the agent itself.
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
    """Returns the number of requests in each of the last seconds, latest last."""
    counted = [0] * int(WINDOW)
    for it in events:
        past = int(now - it.started)
        if 0 <= past < len(counted) and it.verb not in _AGENTS:
            counted[-1 - past] += 1
    return counted


def percentile(values: Sequence[float], part: int) -> float:
    """Returns the nearest-rank percentile.

    >>> percentile([1.0, 2.0, 3.0, 100.0], 50), percentile([1.0, 2.0], 99), percentile([], 50)
    (2.0, 2.0, 0.0)
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * part // 100) - 1, 0)]
