"""Accepts HTTP connections: GET and HEAD of a few pages, bounded in size, time and number.

No client can stall another, or the agent. A client that sends too much, too slowly or no valid request gets
an error and is disconnected. Connections above the limit are accepted, because a refused probe would get a
healthy agent restarted; instead, the server drops the connection that has been idle for longest. If the
address is in use or does not exist yet, the server tries again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from ..server.listener import share
from .messages import BadRequest, HttpPage, HttpRequest, parse_head, response_head

log = logging.getLogger(__name__)

_HEAD_MAX = 8 << 10
_DRAIN_MAX = 64 << 10
# Seconds between two requests of one connection: Prometheus scrapes every minute by default.
_SILENCE = 150.0
_AGAIN = 1.0
# Seconds for creating a page.
_LONGEST = 10.0
# Connections that the kernel keeps until they are accepted; and how many are in one round of the loop.
_BACKLOG = 256
_AT_ONCE = 16
# An eighth of the descriptors: 128 connections, several times as many as are accepted in one round of the
# event loop. So a client that has sent a request is not dropped as idle before the request could be read.
_SHARE = 8
_FULL = HttpPage(b"too many connections\n", status=503)

# Creates a page from the query of its URL.
MakePage: TypeAlias = Callable[[Mapping[str, str]], Awaitable[HttpPage]]


class HttpConnection:
    """One client: which side waits for the other, and since when."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.task: asyncio.Task[None] | None = None
        self.waits_for_us = False
        self.since = time.monotonic()

    def wait_for_client(self) -> None:
        """Notes that the client has to send a request or read its response."""
        self.waits_for_us, self.since = False, time.monotonic()

    def make_client_wait(self) -> None:
        self.waits_for_us, self.since = True, time.monotonic()

    def drop(self) -> None:
        if self.waits_for_us:
            self.writer.write(response_head(_FULL, keep_alive=False) + _FULL.body)
            self.writer.close()
        else:
            # Closing would keep in memory what the client does not read.
            self.writer.transport.abort()
        if self.task is not None:
            self.task.cancel()


class HttpServer:
    """Serves `pages`, by path. `patience` is the time to receive a request, and to send a response.

    `heard` gets the error of each failed attempt to listen, and None after a successful one. `again` is the
    time between two attempts. `limit` is the maximum number of connections.
    """

    def __init__(
        self,
        address: tuple[str, int],
        pages: Mapping[str, MakePage],
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
        self._limit = limit or share(_SHARE)
        self._opening: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[HttpConnection] = set()

    def open(self) -> None:
        """Starts to listen as soon as the address is available."""
        self._opening = asyncio.get_running_loop().create_task(self._listen())

    async def close(self) -> None:
        """Closes all connections. The address is free when this returns."""
        serving = (it.task for it in self._connections)
        tasks = [task for task in (self._opening, *serving) if task is not None]
        for task in tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        if tasks:
            await asyncio.wait(tasks, timeout=self._patience)

    async def _listen(self) -> None:
        has_warned = False
        while True:
            try:
                listening = _listening(self.address)
                break
            except OSError as error:
                if not has_warned:
                    log.warning(
                        "cannot serve metrics and health at %s yet: %s", shown(self.address), error.strerror
                    )
                has_warned = True
                if self._heard is not None:
                    self._heard(error)
                await asyncio.sleep(self._again)
        if self._heard is not None:
            self._heard(None)
        self._server = await asyncio.start_server(
            self._accept, sock=listening, limit=_HEAD_MAX, backlog=_AT_ONCE
        )
        listening.listen(_BACKLOG)  # for asyncio, both are one number
        level = logging.INFO if has_warned else logging.DEBUG
        log.log(level, "serving metrics and health at http://%s/", shown(self.address))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Makes drain() wait until everything is sent.
        writer.transport.set_write_buffer_limits(high=0)
        if len(self._connections) >= self._limit:
            # A client that waits for its response is dropped, with a 503, only if all of them do.
            longest = min(self._connections, key=lambda it: (it.waits_for_us, it.since))
            self._connections.discard(longest)
            longest.drop()
        connection = HttpConnection(writer)
        self._connections.add(connection)
        connection.task = asyncio.get_running_loop().create_task(self._serve(reader, connection))
        connection.task.add_done_callback(lambda _: self._connections.discard(connection))

    async def _serve(self, reader: asyncio.StreamReader, connection: HttpConnection) -> None:
        try:
            silence = self._patience
            while await self._answer(reader, connection, silence):
                silence = self._silence
                # Pipelined requests are readable at once: serve other clients in between.
                await asyncio.sleep(0)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            connection.writer.transport.abort()  # the client disconnected or does not read its response
        finally:
            connection.writer.close()

    async def _answer(self, reader: asyncio.StreamReader, connection: HttpConnection, silence: float) -> bool:
        """Serves one request. Returns whether the connection may be used for another one."""
        try:
            request = await self._received(reader, connection, silence)
            if request is None:
                return False
        except BadRequest as bad:
            await self._send(connection, bad.page, keep_alive=False)
            await self._drain(reader, connection.writer)
            return False
        connection.make_client_wait()
        page = await self._page_for(request)
        await self._send(connection, page, keep_alive=request.keep_alive, body=request.method != "HEAD")
        if not request.keep_alive:
            await self._drain(reader, connection.writer)
        return request.keep_alive

    async def _received(
        self, reader: asyncio.StreamReader, connection: HttpConnection, silence: float
    ) -> HttpRequest | None:
        """Returns the next request; None if the client sends none."""
        connection.wait_for_client()
        try:
            async with asyncio.timeout(silence):
                first = await reader.read(1)
        except TimeoutError:
            return None
        if not first:
            return None
        connection.wait_for_client()
        try:
            async with asyncio.timeout(self._patience):
                head = first + await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise BadRequest(408, "the request did not arrive in time") from None
        except asyncio.LimitOverrunError:
            raise BadRequest(431, "the request is too long") from None
        return parse_head(head)

    async def _page_for(self, request: HttpRequest) -> HttpPage:
        if request.method not in ("GET", "HEAD"):
            return HttpPage(b"this server answers only GET and HEAD\n", status=405)
        make = self._pages.get(request.path)
        if make is None:
            return HttpPage(f"no such page; the pages are {' '.join(self._pages)}\n".encode(), status=404)
        try:
            async with asyncio.timeout(_LONGEST):
                return await make(request.query)
        except TimeoutError:
            return HttpPage(b"the agent did not answer in time; /livez may show what is stuck\n", status=503)
        except Exception:
            log.exception("cannot create the page %s", request.path)
            return HttpPage(b"this is a defect of netloom; the agent's log has details\n", status=500)

    async def _send(
        self, connection: HttpConnection, page: HttpPage, *, keep_alive: bool, body: bool = True
    ) -> None:
        connection.wait_for_client()
        connection.writer.write(response_head(page, keep_alive=keep_alive) + (page.body if body else b""))
        async with asyncio.timeout(self._patience):
            await connection.writer.drain()

    async def _drain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads the rest of the input: closing a connection with unread input may discard the response."""
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
        # Connections of a previous agent may still be in TIME_WAIT.
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
