"""A real browser on the site: what it shows, what it asks for, and what goes wrong."""

from __future__ import annotations

import asyncio
import functools
import http.server
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Page, async_playwright

CHROMIUM = "/usr/bin/chromium"
_ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_TABS = 4

# What is on a page, as whoever reads it has it.
_LOOK = """() => ({
    headings: [...document.querySelectorAll("h1")].map(it => it.innerText.trim()),
    width: document.documentElement.scrollWidth,
    window: window.innerWidth,
})"""
_NOTHING_TO_FIND = {"config": {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}}, "docs": []}


class Look(NamedTuple):
    """A page as it was shown. `troubles` are errors on the console and requests that failed or went away."""

    url: str
    headings: list[str]
    troubles: list[str]
    is_too_wide: bool


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The address of a site that only this machine can reach."""
    handler = functools.partial(_Handler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True  # a browser keeps its connections
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class Tab:
    def __init__(self, page: Page, site: str) -> None:
        self.page = page
        self.site = site
        self._troubles: list[str] = []
        page.on("console", lambda it: self._note(it.type == "error", f"console: {it.text}"))
        page.on("pageerror", lambda it: self._note(True, f"error: {it}"))
        page.on("response", lambda it: self._note(it.status >= 400, f"{it.status}: {it.url}"))
        page.on("request", lambda it: self._note(self._is_elsewhere(it.url), f"elsewhere: {it.url}"))
        # What is still on its way when the next page is asked for is given up.
        page.on(
            "requestfailed",
            lambda it: self._note(it.failure != "net::ERR_ABORTED", f"failed: {it.url}: {it.failure}"),
        )

    def _note(self, is_trouble: bool, text: str) -> None:
        if is_trouble:
            self._troubles.append(text)

    def _is_elsewhere(self, url: str) -> bool:
        return urlsplit(url).scheme not in ("data", "blob") and not url.startswith(self.site)

    async def look(self, url: str) -> Look:
        self._troubles = []
        await self.page.goto(url, wait_until="load")
        seen: dict[str, Any] = await self.page.evaluate(_LOOK)
        return Look(
            url,
            [it.removesuffix("¶").strip() for it in seen["headings"]],
            list(self._troubles),
            seen["width"] > seen["window"],
        )


class Browser:
    def __init__(self, context: BrowserContext, site: str) -> None:
        self.context = context
        self.site = site

    async def tab(self) -> Tab:
        return Tab(await self.context.new_page(), self.site)

    async def without_search(self) -> None:
        """On every page the browser would build the same index anew."""
        await self.context.route("**/search_index.json", lambda it: it.fulfill(json=_NOTHING_TO_FIND))


@asynccontextmanager
async def opened(site: str, width: int = 1280) -> AsyncIterator[Browser]:
    with tempfile.TemporaryDirectory() as profile:
        async with async_playwright() as playwright:
            context = await playwright.chromium.launch_persistent_context(
                profile,
                executable_path=CHROMIUM,
                args=list(_ARGUMENTS),
                headless=True,
                viewport={"width": width, "height": 900},
            )
            try:
                yield Browser(context, site)
            finally:
                await context.close()


async def looks_at(site: str, urls: list[str]) -> list[Look]:
    async with opened(site) as browser:
        await browser.without_search()
        return await _looks([await browser.tab() for _ in range(_TABS)], urls)


async def _looks(tabs: list[Tab], urls: list[str]) -> list[Look]:
    """Of all, each tab going on with the next one that nobody has taken."""
    remaining = iter(urls)
    found: list[Look] = []

    async def go_on(tab: Tab) -> None:
        found.extend([await tab.look(url) for url in remaining])

    await asyncio.gather(*map(go_on, tabs))
    return found
