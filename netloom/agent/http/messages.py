"""HTTP/1.1 requests, parsed by h11, and the responses to them.

h11 accepts what RFC 9112 allows a server to accept: lines that end with LF only, folded headers, repeated
equal lengths. A proxy in front of the agent may read those differently and disagree on where the request
ends, so this module refuses them before h11 sees them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
from msgspec import Struct

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}

_UNCLEAR_LINES = re.compile(rb"\r(?!\n)|(?<!\r)\n|\r\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LENGTH = re.compile(rb"\r\ncontent-length:([^\r]*)", re.IGNORECASE)
_VERSIONS = (b"1.0", b"1.1")
_QUERY_FIELDS = 20
_MALFORMED = "malformed request: the request line, a header or Host is missing or invalid"


class HttpPage(Struct, frozen=True):
    """A response's content."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


class BadRequest(Exception):
    """The request is invalid. The server sends `page` and closes the connection."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.page = HttpPage(f"{why}\n".encode(), status=status)


class HttpRequest(Struct, frozen=True):
    """`keep_alive`: the client may send another request, and it is clear where that one begins."""

    method: str
    path: str
    query: Mapping[str, str]
    keep_alive: bool


def parse_head(head: bytes) -> HttpRequest:
    """Parses the request line and the headers, including the empty line. Raises `BadRequest`."""
    if _UNCLEAR_LINES.search(head):
        raise BadRequest(400, "the request has a folded header, a line without CRLF or a control character")
    lengths: list[bytes] = _LENGTH.findall(head)
    if len(lengths) > 1 or any(b"," in it for it in lengths):
        raise BadRequest(400, "the request has more than one Content-Length")
    request = _parsed(head)
    if request.http_version not in _VERSIONS:
        raise BadRequest(505, "this server speaks HTTP/1.1")
    headers = _joined(request.headers)
    if b"transfer-encoding" in headers:
        raise BadRequest(400, "this server does not accept a Transfer-Encoding")
    options = {it.strip() for it in headers.get(b"connection", b"").lower().split(b",")}
    keep_alive = b"close" not in options if request.http_version == b"1.1" else b"keep-alive" in options
    # The server does not read bodies: what follows would be taken for the next request.
    has_body = bool(headers.get(b"content-length", b"0").strip(b"0"))
    try:
        url = urlsplit(request.target.decode("ascii"))
        query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS))
    except ValueError:
        raise BadRequest(400, "the request's target is not a valid URL") from None
    return HttpRequest(request.method.decode("ascii"), unquote(url.path), query, keep_alive and not has_body)


def _parsed(head: bytes) -> h11.Request:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=len(head))
    connection.receive_data(head)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        # h11's message may quote the request.
        raise BadRequest(400, _MALFORMED) from None
    if not isinstance(event, h11.Request):
        raise BadRequest(400, _MALFORMED)
    return event


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = joined[name] + b"," + value if name in joined else value
    return joined


def response_head(page: HttpPage, *, keep_alive: bool) -> bytes:
    """Returns the status line and the headers of a response."""
    lines = [
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}",
        f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        *(["Allow: GET, HEAD"] if page.status == 405 else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")
