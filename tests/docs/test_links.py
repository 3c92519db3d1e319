"""Every link of the documentation leads to something, as a git host shows it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tools.reference.site import rewritten

from ..lanes import ROOT

pytestmark = pytest.mark.unit

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
# In sentences and strings, as a path from the top of the repository.
_NAMED = re.compile(r"(?<![\w/.-])docs/[\w/.-]+\.(?:md|json|py|svg)\b")
_TEXT = ("", ".md", ".py", ".toml", ".yml", ".json", ".c", ".h", ".service", ".socket", ".css")


@cache
def anchors(page: Path) -> set[str]:
    """As git hosts make them from headings: small letters, no punctuation, a dash for every space."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        copies = (slug if number == 0 else f"{slug}-{number}" for number in range(100))
        found.add(next(it for it in copies if it not in found))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    dead = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        found = page if not target else (page.parent / target).resolve()
        if not found.is_relative_to(ROOT) or not found.exists():
            dead.append(f"{link}: there is no such file")
        elif anchor and anchor not in anchors(found):
            dead.append(f"{link}: there is no such heading")
    assert dead == []


def sources() -> list[Path]:
    """All that people read and write here: code, tests, tools, what is deployed, and documentation."""
    folders = ("netloom", "plugin", "tests", "tools", "bench", "demo", "deploy", "docs")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    found += [path for path in ROOT.iterdir() if path.is_file()]
    return [it for it in found if it.suffix in _TEXT and "__pycache__" not in it.parts]


def test_every_file_of_the_documentation_that_is_named_anywhere_is_there() -> None:
    named = {
        (name, str(path.relative_to(ROOT)))
        for path in sources()
        for name in _NAMED.findall(path.read_text(errors="replace"))
        if not (ROOT / name).exists()
    }
    assert named == set()


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        (
            "docs/how-to/debug.md",
            "[x](../reference/errors.md#all-codes)",
            "[x](../reference/errors.md#all-codes)",
        ),
        ("docs/how-to/run-a-node.md", "[x](../../README.md#install)", "[x](../index.md#install)"),
        ("docs/architecture.md", "[x](../CONTRIBUTING.md)", "[x](contributing.md)"),
        ("README.md", "![x](docs/add.svg) [y](CHANGELOG.md)", "![x](add.svg) [y](changelog.md)"),
        ("docs/tutorial.md", "[x](../Makefile)", "[x](repository/Makefile)"),
        ("docs/tutorial.md", "`[x](../README.md)`", "`[x](../README.md)`"),
        ("docs/tutorial.md", "[x](https://example.org/README.md)", "[x](https://example.org/README.md)"),
        ("docs/tutorial.md", r"| `a\|b` |", "| `a|b` |"),
    ],
)
def test_links_out_of_the_documentation_lead_to_pages_of_the_site(page: str, before: str, after: str) -> None:
    assert rewritten(before, page) == after
