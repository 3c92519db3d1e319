"""Requests and answers of HTTP/1.1, as far as whoever watches an agent needs them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

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

# A line that holds one is two lines to somebody else, or ends there.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# RFC 9110, 5.6.2. A line that begins with a blank goes on with the one before it, and has no name.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ONCE = ("content-length", "host")


class Page(Struct, frozen=True):
    """What somebody gets."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


class Refused(Exception):
    """No request that could be answered; the connection ends with it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.page = Page(f"{why}\n".encode(), status=status)


class Asked(Struct, frozen=True):
    method: str
    path: str
    query: Mapping[str, str]
    keep_alive: bool


def head_of(page: Page, *, keep_alive: bool) -> bytes:
    """What goes before the page itself."""
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


def _headers(lines: Iterable[str]) -> dict[str, str]:
    """By their names in small letters. Where a request ends may not be in doubt: whoever passes it on to us
    has decided that already, perhaps otherwise."""
    headers: dict[str, str] = {}
    for it in lines:
        name, colon, value = it.partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise Refused(400, "a header is none")
        name, value = name.lower(), value.strip(" \t")
        if name in headers and name in _ONCE:
            raise Refused(400, f"{name} is there twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "transfer-encoding" in headers:
        raise Refused(400, "a request that comes in pieces is not taken here")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise Refused(400, "content-length is no number")
    return headers


def parsed(head: bytes) -> Asked:
    """The head of a request, to its empty line. Raises `Refused`."""
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if any(map(_CONTROL.search, (line, *lines))):
        raise Refused(400, "a line of the request has control characters in it")
    parts = line.split(" ")
    if len(parts) != 3 or not (parts[0].isascii() and parts[0].isalpha()):
        raise Refused(400, "that is no request of HTTP")
    method, target, version = parts
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise Refused(505 if version.startswith("HTTP/") else 400, "HTTP/1.1 is what is spoken here")
    headers = _headers(lines)
    if version == "HTTP/1.1" and "host" not in headers:
        raise Refused(400, "a request of HTTP/1.1 needs a Host")
    options = {it.strip() for it in headers.get("connection", "").lower().split(",")}
    keep_alive = "close" not in options if version == "HTTP/1.1" else "keep-alive" in options
    # What comes behind such a head would be taken for the next request.
    has_body = bool(headers.get("content-length", "0").strip("0"))
    try:
        url = urlsplit(target)
        query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise Refused(400, "the address of the page is none") from None
    return Asked(method, unquote(url.path), query, keep_alive and not has_body)
