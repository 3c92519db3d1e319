"""A server of pages, and clients for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec

from netloom.agent.http.messages import HttpPage
from netloom.agent.http.server import HttpServer

P = ParamSpec("P")

LARGE = b"x" * (32 << 20)
GOOD = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def on_a_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


def free_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        host, port = probe.getsockname()
        return host, port


class Site:
    """A server with a page that is well, one that is large, one that fails and one that waits."""

    def __init__(self, address: tuple[str, int] | None = None, **options: float | int) -> None:
        self.waiting = asyncio.Event()
        self.asked_to_wait = 0
        self.could_not_listen = asyncio.Event()
        self.made = 0
        self._clients: list[asyncio.StreamWriter] = []
        self.address = address or free_address()
        self.web = HttpServer(
            self.address,
            {"/": self._echo, "/large": self._large, "/broken": self._broken, "/slow": self._slow},
            heard=self._heard,
            **options,  # type: ignore[arg-type]
        )

    def _heard(self, error: OSError | None) -> None:
        if error is not None:
            self.could_not_listen.set()

    async def _echo(self, query: Mapping[str, str]) -> HttpPage:
        self.made += 1
        return HttpPage(repr(dict(query)).encode())

    async def _large(self, _: Mapping[str, str]) -> HttpPage:
        return HttpPage(LARGE)

    async def _broken(self, _: Mapping[str, str]) -> HttpPage:
        raise ZeroDivisionError

    async def _slow(self, _: Mapping[str, str]) -> HttpPage:
        self.asked_to_wait += 1
        await self.waiting.wait()
        return HttpPage(b"at last")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self.address, limit=1 << 26)
                self._clients.append(writer)
                return reader, writer
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)

    async def said(self, request: bytes, *, ends: bool = False) -> bytes:
        """All that it answers until it hangs up; `ends`: it hears that no other request follows."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            if ends:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(-1), 20)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def close(self) -> None:
        await self.web.close()
        for writer in self._clients:
            writer.close()

    async def is_well(self) -> bool:
        answer = await self.said(b"GET /?a=1 HTTP/1.0\r\n\r\n")
        return answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n{'a': '1'}")


@asynccontextmanager
async def site(**options: float | int) -> AsyncIterator[Site]:
    made = Site(None, **options)
    made.web.open()
    try:
        yield made
    finally:
        await made.close()


async def one_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head, await reader.readexactly(int(length.split(b":")[1]))


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)
