"""The server of pages: whatever a client sends or does not send, others are answered."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import ParamSpec

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netloom.agent.http.http import Page
from netloom.agent.http.web import Web
from netloom.kernel import Namespace

pytestmark = pytest.mark.kernel

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

    def __init__(self, **options: float | int) -> None:
        self.waiting = asyncio.Event()
        self._clients: list[asyncio.StreamWriter] = []
        self.address = free_address()
        self.web = Web(
            self.address,
            {"/": self._echo, "/large": self._large, "/broken": self._broken, "/slow": self._slow},
            **options,  # type: ignore[arg-type]
        )

    async def _echo(self, query: Mapping[str, str]) -> Page:
        return Page(repr(dict(query)).encode())

    async def _large(self, _: Mapping[str, str]) -> Page:
        return Page(LARGE)

    async def _broken(self, _: Mapping[str, str]) -> Page:
        raise ZeroDivisionError

    async def _slow(self, _: Mapping[str, str]) -> Page:
        await self.waiting.wait()
        return Page(b"at last")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self.address, limit=1 << 26)
                self._clients.append(writer)
                return reader, writer
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)

    async def said(self, request: bytes) -> bytes:
        """All that it answers until it hangs up, or somebody would have to ask again."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
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
    made = Site(**options)
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


@on_a_loop
async def test_a_page_is_given_with_its_length_and_kind() -> None:
    async with site() as it:
        head, body = (await it.said(b"GET /?a=1&b=x%20y HTTP/1.0\r\n\r\n")).split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in head
        assert body == b"{'a': '1', 'b': 'x y'}"


@on_a_loop
async def test_head_gives_what_get_would_without_the_page() -> None:
    async with site() as it:
        got = await it.said(b"GET / HTTP/1.0\r\n\r\n")
        head = await it.said(b"HEAD / HTTP/1.0\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert head.partition(b"Content-Type")[2] == got.partition(b"Content-Type")[2][: -len(b"{}")]


@on_a_loop
async def test_a_connection_serves_many_requests_also_those_that_come_together() -> None:
    async with site() as it:
        reader, writer = await it.connect()
        for _ in range(3):
            writer.write(GOOD)
            head, body = await one_answer(reader)
            assert (status_of(head), body) == (200, b"{}")
        writer.write(GOOD * 5)
        for _ in range(5):
            assert (await one_answer(reader))[1] == b"{}"
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        assert status_of(await reader.read(-1)) == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nowhere HTTP/1.0", 404),
        (b"GET //metrics HTTP/1.0", 404),
        (b"GET /../etc/passwd HTTP/1.0", 404),
        (b"POST / HTTP/1.0", 405),
        (b"DELETE / HTTP/1.0", 405),
        (b"GET /broken HTTP/1.0", 500),
        (b"GET / HTTP/2.0", 505),
        (b"GET / HTTP/1.1", 400),
        (b"GET /", 400),
        (b"GET", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
        (b"GET / HTTP/1.0\r\nno header", 400),
        (b"GET / HTTP/1.0\r\n: empty", 400),
        (b"GET / HTTP/1.0\r\nspaced : 1", 400),
        (b"GET / HTTP/1.0\r\na: b\r\n  and more", 400),
        (b"GET / HTTP/1.0\r\n a: b", 400),
        (b"GET / HTTP/1.0\r\na: b\nc: d", 400),
        (b"GET / HTTP/1.0\r\na: b\rc: d", 400),
        (b"GET / HTTP/1.0\r\na: b\n", 400),
        (b"GET / HTTP/1.0\na: b", 400),
        (b"GET / HTTP/1.0\r\na: b\0", 400),
        (b"GET / HTTP/1.0\r\nContent-Length\x0b: 5", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: ", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: -1", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: +0", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: 0, 0", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: 5\xa0", 400),
        (b"GET / HTTP/1.0\r\nContent-Length: " + b"9" * 5000, 200),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400),
        (b"GET http://[::1 HTTP/1.0", 400),
        (b"GET /?" + b"&".join(b"a%d=1" % number for number in range(99)) + b" HTTP/1.0", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.0", 431),
        (b"GET / HTTP/1.0\r\nlong: " + b"a" * 9000, 431),
    ],
)
@on_a_loop
async def test_what_cannot_be_answered_gets_the_status_that_says_why(
    request_line: bytes, status: int
) -> None:
    async with site() as it:
        answer = await it.said(request_line + b"\r\n\r\n")
        assert status_of(answer) == status
        assert (b"\r\nAllow: GET, HEAD\r\n" in answer) == (status == 405)
        assert await it.is_well()


@on_a_loop
async def test_a_body_is_not_taken_for_the_next_request() -> None:
    async with site() as it:
        smuggled = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 34\r\n\r\n" + GOOD + b"..."
        answer = await it.said(smuggled)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert status_of(answer) == 405


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 34\r\nContent-Length: 0",
        b"Content-Length: 0\r\nContent-Length: 34",
        b"Content-Length: 34\r\ncontent-length: 34",
        b"X: a\nContent-Length: 34",
        b"X: a\rContent-Length: 34",
        b"X: a\r\n Content-Length: 34",
        b"Transfer-Encoding: chunked",
        b"Content-Length: 0\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding : chunked",
        b"Content-Length: 0x22",
    ],
)
@on_a_loop
async def test_where_it_is_in_doubt_how_long_a_request_is_nothing_behind_it_is_answered(
    lines: bytes,
) -> None:
    async with site() as it:
        answer = await it.said(b"GET / HTTP/1.1\r\nHost: here\r\n" + lines + b"\r\n\r\n" + GOOD)
        assert (status_of(answer), answer.count(b"HTTP/1.1 ")) == (400, 1)
        assert b"\r\nConnection: close\r\n" in answer
        assert await it.is_well()


@on_a_loop
async def test_of_what_is_said_of_the_connection_every_line_counts() -> None:
    async with site() as it:
        twice = b"Connection: close\r\nConnection: keep-alive"
        answer = await it.said(b"GET / HTTP/1.1\r\nHost: here\r\n" + twice + b"\r\n\r\n" + GOOD)
        assert (status_of(answer), answer.count(b"HTTP/1.1 ")) == (200, 1)


@on_a_loop
async def test_who_sends_slowly_is_told_so_and_left() -> None:
    async with site(patience=0.3) as it:
        reader, writer = await it.connect()
        for letter in b"GET":
            writer.write(bytes([letter]))
            await asyncio.sleep(0.05)
        assert status_of(await reader.read(-1)) == 408
        assert await it.is_well()


@on_a_loop
async def test_who_says_nothing_is_left() -> None:
    async with site(patience=0.2, silence=0.3) as it:
        reader, _ = await it.connect()
        assert await reader.read(-1) == b""
        reader, writer = await it.connect()
        writer.write(GOOD)
        await one_answer(reader)
        assert await reader.read(-1) == b""


@on_a_loop
async def test_who_does_not_take_the_answer_is_left() -> None:
    async with site(patience=0.3) as it:
        assert await it.is_well()
        with socket.create_connection(it.address) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
            await asyncio.sleep(1)
            received = 0
            client.setblocking(False)  # the server is on this thread, too
            with suppress(ConnectionResetError):
                while data := await asyncio.get_running_loop().sock_recv(client, 1 << 20):
                    received += len(data)
        assert received < len(LARGE)
        assert await it.is_well()


@on_a_loop
async def test_a_large_page_arrives_whole() -> None:
    async with site() as it:
        answer = await it.said(b"GET /large HTTP/1.0\r\n\r\n")
        assert answer.partition(b"\r\n\r\n")[2] == LARGE


@on_a_loop
async def test_of_many_silent_connections_the_oldest_makes_room() -> None:
    async with site(limit=4) as it:
        kept = []
        for _ in range(8):
            reader, writer = await it.connect()
            writer.write(GOOD)
            assert (await one_answer(reader))[1] == b"{}"
            kept.append((reader, writer))
        assert await kept[0][0].read(-1) == b""
        newest, writer = kept[-1]
        writer.write(GOOD)
        assert (await one_answer(newest))[1] == b"{}"


@on_a_loop
async def test_when_all_wait_for_an_answer_the_first_of_them_makes_room_and_is_told_so() -> None:
    async with site(limit=2) as it:
        waiting = []
        for _ in range(2):
            waiting.append(asyncio.create_task(it.said(b"GET /slow HTTP/1.0\r\n\r\n")))
            await asyncio.sleep(0.2)
        assert status_of(await it.said(b"GET / HTTP/1.0\r\n\r\n")) == 200
        it.waiting.set()
        assert [status_of(await task) for task in waiting] == [503, 200]
        assert await it.is_well()


@pytest.mark.parametrize("request_", [b"", b"GET / HT", b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n"])
@on_a_loop
async def test_clients_that_ask_nothing_or_half_or_do_not_read_make_room_and_leave_nothing(
    request_: bytes,
) -> None:
    async with site(limit=8) as it:
        assert await it.is_well()
        before = len(os.listdir("/proc/self/fd"))
        clients = [await it.connect() for _ in range(20)]
        for reader, writer in clients:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request_)
        assert await it.is_well()
        for _, writer in clients:
            writer.transport.abort()
        async with asyncio.timeout(20):
            while len(os.listdir("/proc/self/fd")) > before:
                await asyncio.sleep(0.05)


@on_a_loop
async def test_whoever_asks_among_a_burst_of_idle_connections_is_answered() -> None:
    async with site() as it:
        await it.connect()
        asking = [asyncio.create_task(it.said(b"GET / HTTP/1.0\r\n\r\n")) for _ in range(10)]
        bursts = [asyncio.create_task(it.connect()) for _ in range(600)]
        assert [status_of(await task) for task in asking] == [200] * 10
        await asyncio.gather(*bursts)
        assert await it.is_well()


@on_a_loop
async def test_an_address_that_is_taken_is_had_when_it_is_free() -> None:
    it = Site()
    taken = socket.create_server(it.address)
    it.web.open()
    await asyncio.sleep(0.2)
    taken.close()
    assert await it.is_well()
    await it.close()
    with socket.create_server(it.address, reuse_port=False):
        pass


def test_an_address_that_is_not_there_yet_is_had_when_it_is() -> None:
    """As that of the loopback of a machine that just boots."""

    async def appear() -> None:
        it = Site()
        it.web.open()
        await asyncio.sleep(0.2)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        assert await it.is_well()
        await it.close()

    with Namespace.new("a machine that boots") as namespace, namespace.entered():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        address = free_address()
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        assert address[0] == "127.0.0.1"
        asyncio.run(appear())


@on_a_loop
async def test_a_server_that_is_closed_hangs_up_and_can_be_opened_again() -> None:
    it = Site()
    it.web.open()
    reader, writer = await it.connect()
    writer.write(GOOD)
    await one_answer(reader)
    await it.web.close()
    assert await reader.read(-1) == b""
    it.web.open()
    assert await it.is_well()
    await it.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=4))
def test_nothing_that_a_client_sends_ends_the_server(pieces: list[bytes]) -> None:
    async def send() -> None:
        async with site(patience=0.1) as it:
            answer = await it.said(b"".join(pieces))
            assert not answer or answer.startswith(b"HTTP/1.1 ")
            assert await it.is_well()

    asyncio.run(send())
