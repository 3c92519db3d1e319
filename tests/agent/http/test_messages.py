"""What is parsed is a request that every reader of it would end at the same byte; the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netloom.agent.http.messages import BadRequest, HttpPage, HttpRequest, parse_head, response_head

pytestmark = pytest.mark.unit

_LINES = st.sampled_from(
    [
        b"Host: here",
        b"Connection: close",
        b"Connection: Keep-Alive",
        b"Content-Length: 0",
        b"Content-Length: 5",
        b"content-length:7,7",
        b"Transfer-Encoding: chunked",
        b"X: a\n",
        b" folded",
        b"no header",
    ]
)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", {}),
        (b"/readyz?network=a%20b", "/readyz", {"network": "a b"}),
        (b"/readyz?network=", "/readyz", {"network": ""}),
        (b"/%6detrics", "/metrics", {}),
        (b"http://elsewhere:9/metrics?a=1", "/metrics", {"a": "1"}),
        (b"*", "*", {}),
    ],
)
def test_a_target_is_a_path_and_a_query(target: bytes, path: str, query: dict[str, str]) -> None:
    request = parse_head(b"GET " + target + b" HTTP/1.1\r\nHost: here\r\n\r\n")
    assert request == HttpRequest("GET", path, query, keep_alive=True)


@given(st.binary(max_size=200))
@example(b"GET / HTTP/1.1\r\nHost: here")
def test_whatever_arrives_is_a_request_or_a_bad_one(head: bytes) -> None:
    try:
        parse_head(head + b"\r\n\r\n")
    except BadRequest as bad:
        assert bad.page.status in (400, 505)
        assert response_head(bad.page, keep_alive=False).endswith(b"\r\n\r\n")


@given(st.lists(_LINES, max_size=6))
def test_what_may_have_a_body_does_not_keep_the_connection(lines: list[bytes]) -> None:
    try:
        request = parse_head(b"\r\n".join([b"GET / HTTP/1.1", *lines, b"", b""]))
    except BadRequest:
        return
    assert lines.count(b"Host: here") == 1
    assert not {b"Transfer-Encoding: chunked", b"content-length:7,7", b"X: a\n", b" folded"} & set(lines)
    assert lines.count(b"Content-Length: 0") + lines.count(b"Content-Length: 5") < 2
    assert request.keep_alive == (not {b"Connection: close", b"Content-Length: 5"} & set(lines))


def test_only_an_answer_to_a_method_that_is_not_served_names_those_that_are() -> None:
    assert b"\r\nAllow: GET, HEAD\r\n" in response_head(HttpPage(b"", status=405), keep_alive=True)
    assert b"Allow" not in response_head(HttpPage(b""), keep_alive=True)
