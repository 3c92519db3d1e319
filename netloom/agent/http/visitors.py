"""Who is connected to the agent's pages: not more than a number, and always with room for one more.

Nobody is turned away at the door: a probe that was, would have an agent restarted that is well. Who has kept
us waiting for longest goes in its place: for a request, or for the answer to be taken. Only if all of them
wait for us, one of those goes, and is told so.
"""

from __future__ import annotations

import asyncio
import time

from ..server.descriptors import share
from .http import Page, head_of

# Of the descriptors: 128 connections, several times as many as are accepted in one round of the event loop.
# So who has sent a request is not taken for one that is silent before that could be read.
_SHARE = 8
_FULL = Page(b"too many connections\n", status=503)


class Visitor:
    """One connection, and since when we wait for it, or it for us."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.task: asyncio.Task[None] | None = None
        self.waits = False
        self.since = time.monotonic()

    def expect(self) -> None:
        """Something of it: a request, or to take its answer."""
        self.waits, self.since = False, time.monotonic()

    def keep_waiting(self) -> None:
        self.waits, self.since = True, time.monotonic()

    def dismiss(self) -> None:
        if self.waits:
            self.writer.write(head_of(_FULL, keep_alive=False) + _FULL.body)
            self.writer.close()
        else:
            # What it does not take would be kept for it.
            self.writer.transport.abort()
        if self.task is not None:
            self.task.cancel()


class Visitors:
    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or share(_SHARE)
        self._present: set[Visitor] = set()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [it.task for it in self._present if it.task is not None]

    def admit(self, writer: asyncio.StreamWriter) -> Visitor:
        if len(self._present) >= self._limit:
            longest = min(self._present, key=lambda it: (it.waits, it.since))
            self._present.discard(longest)
            longest.dismiss()
        visitor = Visitor(writer)
        self._present.add(visitor)
        return visitor

    def forget(self, visitor: Visitor) -> None:
        self._present.discard(visitor)
