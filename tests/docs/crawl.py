"""The built site as its files have it: which pages links lead to, and which links lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urljoin


class WrittenPage(HTMLParser):
    """What a page contains. The first heading is its title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self._is_in_heading = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.anchors |= {name for it in ("id", "name") if (name := of.get(it))}
        if tag == "a" and of.get("href"):
            self.links.add(str(of["href"]))
        if tag == "h1":
            self.headings.append("")
            self._is_in_heading = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "h1":
            self._is_in_heading = False

    def handle_data(self, data: str) -> None:
        if self._is_in_heading:
            self.headings[-1] = f"{self.headings[-1]}{data}".removesuffix("¶").strip()


class Crawl(NamedTuple):
    """Pages that links from the first one lead to, by their addresses below the site's; and dead links."""

    pages: dict[str, WrittenPage]
    dead: list[str]


_BASE = "http://site/"


def crawl(directory: Path) -> Crawl:
    pages: dict[str, WrittenPage] = {}
    waiting = [""]
    while waiting:
        address = waiting.pop()
        if address in pages:
            continue
        pages[address] = WrittenPage((directory / address / "index.html").read_text())
        waiting += [
            to for to, _ in _targets(address, pages[address]) if (directory / to / "index.html").is_file()
        ]
    return Crawl(pages, list(_dead_links(directory, pages)))


def _targets(address: str, page: WrittenPage) -> Iterator[tuple[str, str]]:
    """Addresses below the site's, and the anchors there."""
    for link in sorted(page.links):
        url, anchor = urldefrag(urljoin(_BASE + address, link))
        if url.startswith(_BASE):
            yield unquote(url.removeprefix(_BASE)), unquote(anchor)


def _dead_links(directory: Path, pages: dict[str, WrittenPage]) -> Iterator[str]:
    for address, page in pages.items():
        for to, anchor in _targets(address, page):
            if to not in pages and not (directory / to).is_file():
                yield f"/{address}: /{to} is not there"
            elif to in pages and anchor and anchor not in pages[to].anchors:
                yield f"/{address}: there is no #{anchor} on /{to}"
