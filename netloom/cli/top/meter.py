"""Reads the node's numbers again and again: from the journal as it grows, and from the agent."""

from __future__ import annotations

import argparse
import time
from collections import deque

from ...api.client import AgentError, Connection
from ...api.info import Info
from ..event import Event
from ..event_stream import Stream, Wanted
from ..failure import CommandFailed
from ..journal import ledger
from ..place import intents_dir
from ..pools import PoolShown
from ..queued import queued
from .reading import WINDOW, AgentReading, Reading, latencies_of, rates_of, seconds_of

# Of events that are shown, and of those that are counted: a minute of the busiest node.
_SHOWN = 200
_COUNTED = 20000
# Pools change slowly, and to count them costs more than all else.
_POOLS_EVERY = 5.0
_PATIENCE = 0.5


class Meter:
    def __init__(self, args: argparse.Namespace) -> None:
        # What it has to tell goes into a reading, and not to a terminal that is drawn on.
        self._args = argparse.Namespace(**{**vars(args), "json": True, "audit": False})
        self._told = ""
        self._stream = Stream(self._args, self._hear)
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
            intents=len(queued(intents_dir(self._args))),
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
                found = self._stream.before(Wanted(), _SHOWN)
                # On a busy node, the last minute holds more than is shown.
                if found and now - found[0].started < WINDOW:
                    found = self._stream.before(Wanted(since=now - WINDOW), None) or found
            except CommandFailed as error:
                self._told = str(error)
                return deque()
            self._events = deque(found, _COUNTED)
        else:
            self._events.extend(self._stream.since(Wanted()))
        return self._events

    def _counted(self) -> dict[str, int]:
        try:
            with ledger(self._args) as journal:
                return (
                    {} if journal is None else {str(state): count for state, count in journal.count().items()}
                )
        except CommandFailed as error:
            self._told = str(error)
            return {}

    def _read_pools(self, now: float) -> list[PoolShown]:
        from ..pool_report import report

        if abs(now - self._pools_at) >= _POOLS_EVERY:
            try:
                self._pools = report(self._args).pools
            except CommandFailed:  # which was told of already
                self._pools = []
            self._pools_at = now
        return self._pools

    def _ask(self) -> tuple[Info | None, str]:
        try:
            with Connection(self._args.socket, _PATIENCE) as connection:
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
