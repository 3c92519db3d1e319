"""The HTTP server: whatever a client does or does not do, others are answered."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from contextlib import suppress

import pytest

from netloom.kernel import Namespace

from .site import GOOD, LARGE, Site, on_a_loop, one_answer, site, status_of, until

pytestmark = pytest.mark.kernel


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


@on_a_loop
async def test_between_requests_that_come_together_another_client_is_answered() -> None:
    async with site() as it:
        (crowd, many), (other, one) = await it.connect(), await it.connect()
        many.write(GOOD * 300)
        one.write(GOOD)
        await one_answer(other)
        assert it.made < 300
        while it.made < 301:
            await one_answer(crowd)


@on_a_loop
async def test_requests_without_end_are_no_stall_for_another_client() -> None:
    async with site() as it:
        reader, writer = await it.connect()
        writer.write(GOOD * 20_000)
        assert await it.is_well()
        assert (await one_answer(reader))[1] == b"{}"


@on_a_loop
async def test_many_clients_that_send_a_byte_now_and_then_are_told_so_in_time_and_stall_no_other() -> None:
    async with site(patience=0.5) as it:
        clients = [await it.connect() for _ in range(30)]

        async def trickle(writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                for letter in b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1000:
                    writer.write(bytes([letter]))
                    await asyncio.sleep(0.05)

        slow = [asyncio.create_task(trickle(writer)) for _, writer in clients]
        assert await it.is_well()
        answers = await asyncio.gather(*(reader.read(-1) for reader, _ in clients), return_exceptions=True)
        for task in slow:
            task.cancel()
        told = [answer for answer in answers if isinstance(answer, bytes)]
        assert {status_of(answer) for answer in told} == {408}
        assert await it.is_well()


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
        for number in (1, 2):
            waiting.append(asyncio.create_task(it.said(b"GET /slow HTTP/1.0\r\n\r\n")))
            await until(lambda wanted=number: it.asked_to_wait == wanted)  # type: ignore[misc]
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
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


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
    it = Site(again=0.05)
    taken = socket.create_server(it.address)
    it.web.open()
    await it.could_not_listen.wait()
    taken.close()
    assert await it.is_well()
    await it.close()
    with socket.create_server(it.address, reuse_port=False):
        pass


def test_an_address_that_is_not_there_yet_is_had_when_it_is() -> None:
    """As that of a link of a machine that just boots."""

    @on_a_loop
    async def appear() -> None:
        it = Site(("192.0.2.7", 9478), again=0.05)
        it.web.open()
        await it.could_not_listen.wait()
        subprocess.run(["ip", "address", "add", "192.0.2.7/32", "dev", "lo"], check=True)
        assert await it.is_well()
        await it.close()

    with Namespace.new("a machine that boots") as namespace, namespace.entered():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        appear()


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
