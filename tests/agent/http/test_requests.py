"""What a client may send, and what it gets: a bad request never hides or delays another."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .site import GOOD, on_a_loop, one_answer, site, status_of

pytestmark = pytest.mark.kernel


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
        (b"GET / HTTP/1.0\r\nContent-Length: " + b"9" * 20, 200),
        (b"GET / HTTP/1.0\r\nContent-Length: " + b"9" * 5000, 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400),
        (b"GET http://[::1 HTTP/1.0", 400),
        (b"GET  / HTTP/1.0", 400),
        (b"GET / HTTP/1.0 ", 400),
        (b" GET / HTTP/1.0", 400),
        (b"G(T / HTTP/1.0", 400),
        (b"GET /\xff HTTP/1.0", 400),
        (b"GET / http/1.0", 400),
        (b"\r\nGET / HTTP/1.0", 400),
        (b"GET / HTTP/1.0\r\na: \x01", 400),
        (b"GET / HTTP/1.0\r\na: \x7f", 400),
        (b"PRI * HTTP/2.0", 505),
        (b"OPTIONS * HTTP/1.0", 405),
        (b"CONNECT here:80 HTTP/1.1\r\nHost: here", 405),
        (b"GET http://here/ HTTP/1.1\r\nHost: here", 200),
        (b"GET http://here/nowhere HTTP/1.1\r\nHost: here", 404),
        (b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: h2c\r\nConnection: Upgrade, close", 200),
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
        answer = await it.said(request_line + b"\r\n\r\n", ends=True)
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


@pytest.mark.parametrize(
    "chunks",
    [
        b"0\r\n\r\n",
        b"zz\r\n\r\n",
        b"-1\r\n\r\n",
        b"ffffffffffffffffffffff\r\n",
        b"5\r\nhello",
        b"5;" + b"x" * 20000,
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
@on_a_loop
async def test_a_chunked_body_is_refused_before_it_is_read(method: bytes, chunks: bytes) -> None:
    async with site() as it:
        head = method + b" / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await it.said(head + chunks + GOOD)
        assert (status_of(answer), answer.count(b"HTTP/1.1 ")) == (400, 1)
        assert await it.is_well()


@pytest.mark.parametrize("sent", [b"", b"hello", GOOD * 2, b"x" * 200_000])
@on_a_loop
async def test_a_get_with_a_body_is_answered_once_and_the_body_is_not_read_as_requests(sent: bytes) -> None:
    async with site() as it:
        length = b"Content-Length: %d\r\n" % max(len(sent), 5)
        answer = await it.said(b"GET / HTTP/1.1\r\nHost: here\r\n" + length + b"\r\n" + sent, ends=True)
        # A client that sends more than the server drains may lose the answer, but never gets two.
        assert answer.count(b"HTTP/1.1 ") == 1 or (len(sent) > 64 << 10 and not answer)
        assert await it.is_well()


@on_a_loop
async def test_a_body_of_no_length_leaves_the_connection_open() -> None:
    async with site() as it:
        reader, writer = await it.connect()
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n")
            assert b"\r\nConnection: keep-alive\r\n" in (await one_answer(reader))[0]


@on_a_loop
async def test_http_1_0_is_closed_unless_the_client_asks_to_keep_it() -> None:
    async with site() as it:
        reader, writer = await it.connect()
        writer.write(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
        assert b"\r\nConnection: keep-alive\r\n" in (await one_answer(reader))[0]
        writer.write(b"GET / HTTP/1.0\r\n\r\n" + GOOD)
        answer = await reader.read(-1)
        assert (answer.count(b"HTTP/1.1 "), b"\r\nConnection: close\r\n" in answer) == (1, True)


@on_a_loop
async def test_requests_that_come_together_are_answered_in_turn_up_to_the_first_bad_one() -> None:
    async with site() as it:
        head = b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n"
        missing = b"GET /nowhere HTTP/1.1\r\nHost: here\r\n\r\n"
        answer = await it.said(GOOD + head + missing + b"nonsense\r\n\r\n" + GOOD)
        statuses = [int(it[:3]) for it in answer.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [200, 200, 404, 400]
        assert await it.is_well()


@pytest.mark.parametrize(
    "endless", [b"GET /", b"GET / HTTP/1.1\r\nHost: here\r\nlong: ", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 99]
)
@on_a_loop
async def test_a_head_that_does_not_end_is_refused_at_its_limit(endless: bytes) -> None:
    async with site() as it:
        filler = b"a: b\r\n" if endless.endswith(b"\n") else b"aaaaaa"
        answer = await it.said(endless + filler * 3000)
        assert status_of(answer) == 431
        assert await it.is_well()


@on_a_loop
async def test_an_error_does_not_repeat_what_the_client_sent() -> None:
    async with site() as it:
        for request in (b"<script>", b"GET / HTTP/1.0\r\n<script>", b"GET /<script> HTTP/1.0"):
            assert b"script" not in await it.said(request + b"\r\n\r\n")


@on_a_loop
async def test_of_what_is_said_of_the_connection_every_line_counts() -> None:
    async with site() as it:
        twice = b"Connection: close\r\nConnection: keep-alive"
        answer = await it.said(b"GET / HTTP/1.1\r\nHost: here\r\n" + twice + b"\r\n\r\n" + GOOD)
        assert (status_of(answer), answer.count(b"HTTP/1.1 ")) == (200, 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=4), st.booleans())
def test_nothing_that_a_client_sends_ends_the_server(pieces: list[bytes], ends: bool) -> None:
    async def send() -> None:
        async with site(patience=0.1) as it:
            answer = await it.said(b"".join(pieces), ends=ends)
            assert not answer or answer.startswith(b"HTTP/1.1 ")
            assert await it.is_well()

    asyncio.run(send())
