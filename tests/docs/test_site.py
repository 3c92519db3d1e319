"""The site is built without a warning, its links lead somewhere, and a real browser shows its pages.

Links are followed in the files. The browser shows some pages, others each time; all of them in `make soak`.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lanes import ROOT
from .browser import Look, looks_at, opened, served
from .crawl import Crawl, crawl

pytestmark = pytest.mark.interop

# On a telephone, too: pages that are long and have tables.
NARROW = ("", "reference/commands/ls/", "reference/network/", "reference/errors/", "how-to/run-a-node/")

# So many pages are shown when not all are.
SAMPLE = 25


class Built:
    def __init__(self, directory: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
        )
        self.directory = directory
        self.status = done.returncode
        self.said = done.stdout + done.stderr

    @property
    def addresses(self) -> set[str]:
        """Every page that was written, by its address below the site's."""
        pages = self.directory.rglob("index.html")
        return {
            "" if (it := str(page.parent.relative_to(self.directory))) == "." else f"{it}/" for page in pages
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def site(built: Built) -> Iterator[str]:
    with served(built.directory) as address:
        yield address


@pytest.fixture(scope="module")
def crawled(built: Built) -> Crawl:
    return crawl(built.directory)


def test_the_site_is_built_without_a_warning(built: Built) -> None:
    assert built.status == 0, built.said
    assert not re.search("warning|error", built.said, re.IGNORECASE), built.said


def test_every_page_can_be_reached_by_links(crawled: Crawl, built: Built) -> None:
    assert set(crawled.pages) == built.addresses
    assert len(crawled.pages) > 100


def test_every_link_and_every_anchor_leads_somewhere(crawled: Crawl) -> None:
    assert crawled.dead == []


def test_every_page_has_one_heading(crawled: Crawl) -> None:
    assert [
        address for address, it in crawled.pages.items() if len(it.headings) != 1 or not it.headings[0]
    ] == []


def test_a_page_has_the_heading_of_its_file(crawled: Crawl) -> None:
    assert crawled.pages["reference/commands/ls/"].headings == ["netloom ls"]
    assert crawled.pages[""].headings == ["netloom"]


def test_the_browser_shows_pages_as_written_and_asks_no_other_host(
    site: str, crawled: Crawl, soak: bool
) -> None:
    pages = sorted(crawled.pages)
    chosen = pages if soak else ["", *random.sample(pages, SAMPLE)]
    seen = asyncio.run(looks_at(site, [site + it for it in chosen]))

    assert [f"{it.url}: {text}" for it in seen for text in it.troubles] == []
    assert {it.url: it.headings for it in seen} == {site + it: crawled.pages[it].headings for it in chosen}


def test_pages_fit_a_narrow_window(site: str) -> None:
    async def looks() -> list[Look]:
        async with opened(site, width=380) as browser:
            tab = await browser.tab()
            return [await tab.look(site + path) for path in NARROW]

    assert [it.url for it in asyncio.run(looks()) if it.is_too_wide or it.troubles] == []


def test_the_search_finds_a_command(site: str) -> None:
    async def found() -> str:
        async with opened(site) as browser:
            tab = await browser.tab()
            await tab.look(site)
            # By its keys: the page reads the field when one comes up, not when the text is put there.
            await tab.page.get_by_role("textbox", name="Search").press_sequentially("connectivity")
            first = tab.page.locator(".md-search-result__link").first
            await first.wait_for(timeout=120_000)
            return await first.get_attribute("href") or ""

    assert "connectivity" in asyncio.run(found())
