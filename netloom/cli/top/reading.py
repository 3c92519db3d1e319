"""One look at the node: what `netloom top` shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ..event import Event
from ..pools import PoolShown

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
