"""Turns: operations on one attachment come one after the other, in the order in which they arrived."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..cni import AttachmentKey


class Turns:
    def __init__(self) -> None:
        self._waiting: dict[AttachmentKey, deque[asyncio.Future[None]]] = {}

    def is_busy(self, key: AttachmentKey) -> bool:
        return key in self._waiting

    @asynccontextmanager
    async def of(self, key: AttachmentKey) -> AsyncIterator[None]:
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque()
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on(key)
                raise
        try:
            yield
        finally:
            self._pass_on(key)

    def _pass_on(self, key: AttachmentKey) -> None:
        queue = self._waiting[key]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]
