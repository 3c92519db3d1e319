"""The repository as a site: mkdocs calls these functions while it builds.

Links in pages work on a git host. Files outside docs/ (the README, the changelog) are pages of the site as
well, and links to them are rewritten during the build.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

# Files of the repository that become pages, with their names in the site.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = _nav()
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for source in sorted(_linked(files)):
        files.append(File.generated(config, _name_of(source), abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    del config, files
    source = _source_of(page.file.src_uri)
    return rewritten(markdown, source)


def rewritten(markdown: str, source: str) -> str:
    """Rewrites a page's links to files of the site. `source` is the page's file in the repository."""
    here = os.path.dirname(_site_path(source))

    def link(match: re.Match[str]) -> str:
        target = _target(match[2], source)
        if target is None:
            return match[0]
        return f"{match[1]}{os.path.relpath(_site_path(target), here or '.')}{match[3]}"

    parts = _CODE.split(markdown)
    return "".join(_code(part) if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def _code(text: str) -> str:
    """Unescapes code: in a table, git hosts need a bar to be escaped, but mkdocs would show the backslash."""
    return text if text.startswith("```") else text.replace(r"\|", "|")


def _target(link: str, source: str) -> str | None:
    """Returns the repository file that a link leads to; None for other links."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    target = os.path.normpath(os.path.join(os.path.dirname(source), link))
    return target if (ROOT / target).is_file() else None


def _source_of(site_path: str) -> str:
    known = {name: source for source, name in PAGES.items()}
    return known.get(site_path, f"docs/{site_path}")


def _site_path(source: str) -> str:
    return source.removeprefix("docs/") if source.startswith("docs/") else _name_of(source)


def _name_of(source: str) -> str:
    return PAGES.get(source, f"repository/{source}")


def _linked(files: Files) -> set[str]:
    """Returns the files outside docs/ that pages link to and that are not pages of the site."""
    found = set()
    for page in files.documentation_pages():
        source = _source_of(page.src_uri)
        for _, link, _ in _LINK.findall(_CODE.sub("", (ROOT / source).read_text())):
            target = _target(link, source)
            if target and not target.startswith("docs/") and target not in PAGES:
                found.add(target)
    return found


def _nav() -> list[Any]:
    return [
        {"Start": ["index.md", "tutorial-node.md", "library.md", "tutorial.md"]},
        {"How-to": _pages("how-to")},
        {
            "Reference": [
                {"Commands": ["reference/cli.md", "reference/exit-status.md", *_pages("reference/commands")]},
                {"Networks": ["reference/network.md", *_pages("reference/keys")]},
                {"Errors": ["reference/errors.md", *_pages("reference/errors")]},
                {"Metrics": ["reference/metrics.md", *_pages("reference/metrics")]},
                {"Library": [f"reference/{name}.md" for name in ("runtime", "plugin", "kernel", "plan")]},
                {"Inside": [f"reference/{name}.md" for name in ("table", "protocol", "libcni", "bench")]},
            ]
        },
        {"Architecture": ["architecture.md"]},
        {"Project": ["changelog.md", "contributing.md"]},
    ]


def _pages(folder: str) -> list[str]:
    """Sorts numbers by value, before words."""

    def order(path: Path) -> tuple[bool, int, str]:
        return (not path.stem.isdecimal(), int(path.stem) if path.stem.isdecimal() else 0, path.stem.lower())

    return [f"{folder}/{path.name}" for path in sorted((DOCS / folder).glob("*.md"), key=order)]
