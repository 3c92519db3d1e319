"""Turns: operations on one attachment come one after the other, in the order in which they arrived."""

from __future__ import annotations

import asyncio
from collections import deque

from ..cni import AttachmentKey


class Turns:
    def __init__(self) -> None:
        self._waiting: dict[AttachmentKey, deque[asyncio.Future[None]]] = {}

    def is_busy(self, key: AttachmentKey) -> bool:
        return key in self._waiting

    def of(self, key: AttachmentKey) -> Turn:
        """`async with turns.of(key):` waits for the turn, and passes it on at the end."""
        return Turn(self, key)

    async def take(self, key: AttachmentKey) -> None:
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.pass_on(key)
            raise

    def pass_on(self, key: AttachmentKey) -> None:
        queue = self._waiting[key]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]


class Turn:
    def __init__(self, turns: Turns, key: AttachmentKey) -> None:
        self._turns = turns
        self._key = key

    async def __aenter__(self) -> None:
        await self._turns.take(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._turns.pass_on(self._key)
