"""A small HTTP server for machines that watch: GET and HEAD, a few pages, nothing that a client can break.

It is beside the agent's work, not part of it: an address that is taken or not there yet is told of once and
tried again; whoever sends too much, too slowly or nonsense is answered and left; and of too many, the one
that kept us waiting for longest makes room for whoever comes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from .http import Asked, Page, Refused, head_of, parsed
from .visitors import Visitor, Visitors

log = logging.getLogger(__name__)

_HEAD_MAX = 8 << 10
_DRAIN_MAX = 64 << 10
# Between two requests of one connection: Prometheus asks every minute, by default.
_SILENCE = 150.0
_AGAIN = 1.0
# For making a page.
_LONGEST = 10.0
# Connections that the kernel keeps until they are accepted; and how many are in one round of the loop.
_BACKLOG = 256
_AT_ONCE = 16

# Given what stands behind the question mark.
Make: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Page]]


class Web:
    """`pages` are by their paths. `patience` is for a request to arrive, and for an answer to be taken.

    `heard` gets the error of every attempt to listen, and None when one has succeeded. `again` is the time
    between two attempts.
    """

    def __init__(
        self,
        address: tuple[str, int],
        pages: Mapping[str, Make],
        *,
        patience: float = 5.0,
        silence: float = _SILENCE,
        limit: int | None = None,
        heard: Callable[[OSError | None], None] | None = None,
        again: float = _AGAIN,
    ) -> None:
        self.address = address
        self._heard = heard
        self._again = again
        self._pages = pages
        self._patience = patience
        self._silence = silence
        self._opening: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._visitors = Visitors(limit)

    def open(self) -> None:
        """From now on, as soon as the address can be had."""
        self._opening = asyncio.get_running_loop().create_task(self._listen())

    async def close(self) -> None:
        """The address is free when this returns."""
        tasks = [task for task in (self._opening, *self._visitors.tasks) if task is not None]
        for task in tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        if tasks:
            await asyncio.wait(tasks, timeout=self._patience)

    async def _listen(self) -> None:
        told = False
        while True:
            try:
                listening = _listening(self.address)
                break
            except OSError as error:
                if not told:
                    log.warning(
                        "metrics and health cannot be had at %s yet: %s", shown(self.address), error.strerror
                    )
                told = True
                if self._heard is not None:
                    self._heard(error)
                await asyncio.sleep(self._again)
        if self._heard is not None:
            self._heard(None)
        self._server = await asyncio.start_server(
            self._take, sock=listening, limit=_HEAD_MAX, backlog=_AT_ONCE
        )
        listening.listen(_BACKLOG)  # for asyncio, both are one number
        level = logging.INFO if told else logging.DEBUG
        log.log(level, "metrics and health are at http://%s/", shown(self.address))

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whatever was sent is sent when it was waited for.
        writer.transport.set_write_buffer_limits(high=0)
        visitor = self._visitors.admit(writer)
        visitor.task = asyncio.get_running_loop().create_task(self._serve(reader, visitor))
        visitor.task.add_done_callback(lambda _: self._visitors.forget(visitor))

    async def _serve(self, reader: asyncio.StreamReader, visitor: Visitor) -> None:
        try:
            silence = self._patience
            while await self._answer(reader, visitor, silence):
                silence = self._silence
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            visitor.writer.transport.abort()  # it is gone, or does not take its answer
        finally:
            visitor.writer.close()

    async def _answer(self, reader: asyncio.StreamReader, visitor: Visitor, silence: float) -> bool:
        """Whether the connection may be used for another."""
        try:
            asked = await self._asked(reader, visitor, silence)
            if asked is None:
                return False
        except Refused as refused:
            await self._send(visitor, refused.page, keep_alive=False)
            await self._drain(reader, visitor.writer)
            return False
        visitor.keep_waiting()
        page = await self._made(asked)
        await self._send(visitor, page, keep_alive=asked.keep_alive, body=asked.method != "HEAD")
        if not asked.keep_alive:
            await self._drain(reader, visitor.writer)
        return asked.keep_alive

    async def _asked(self, reader: asyncio.StreamReader, visitor: Visitor, silence: float) -> Asked | None:
        """The next request; None if there is none."""
        visitor.expect()
        try:
            async with asyncio.timeout(silence):
                first = await reader.read(1)
        except TimeoutError:
            return None
        if not first:
            return None
        visitor.expect()
        try:
            async with asyncio.timeout(self._patience):
                head = first + await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise Refused(408, "the request did not arrive in time") from None
        except asyncio.LimitOverrunError:
            raise Refused(431, "the request is too long") from None
        return parsed(head)

    async def _made(self, asked: Asked) -> Page:
        if asked.method not in ("GET", "HEAD"):
            return Page(b"GET and HEAD are all that is served here\n", status=405)
        make = self._pages.get(asked.path)
        if make is None:
            listed = " ".join(self._pages)
            return Page(f"there is nothing here; there is {listed}\n".encode(), status=404)
        try:
            async with asyncio.timeout(_LONGEST):
                return await make(asked.query)
        except TimeoutError:
            return Page(b"the node does not answer; /livez may say which part of it\n", status=503)
        except Exception:
            log.exception("the page %s could not be made", asked.path)
            return Page(b"this is a defect of netloom; the agent's log has more\n", status=500)

    async def _send(self, visitor: Visitor, page: Page, *, keep_alive: bool, body: bool = True) -> None:
        visitor.expect()
        visitor.writer.write(head_of(page, keep_alive=keep_alive) + (page.body if body else b""))
        async with asyncio.timeout(self._patience):
            await visitor.writer.drain()

    async def _drain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """To close a connection on which something was not read takes the answer back from the client."""
        left = _DRAIN_MAX
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._patience, 1.0)):
                writer.write_eof()
                while left > 0 and (read := await reader.read(4096)):
                    left -= len(read)


def _listening(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    listening = socket.socket(family, kind)
    try:
        # An agent before us may have left connections that the kernel still keeps.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        listening.listen(64)
    except BaseException:
        listening.close()
        raise
    return listening


def shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
