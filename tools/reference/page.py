"""Pages: a title, a line that describes it, and sections, some generated and some written by hand.

A heading identifies a section. Generated sections are replaced as a whole; all others are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    heading: str
    body: str


class Page(NamedTuple):
    title: str
    lead: str
    sections: tuple[Section, ...]


class Part(NamedTuple):
    """A section of a page type. If it is not generated, `body` is its text in a new page."""

    heading: str
    body: str
    is_made: bool = True


def read(text: str) -> Page:
    title, lead = "", []
    sections: list[tuple[str, list[str]]] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("<!-- `make docs`"):
            continue
        if line.startswith("## ") and not is_code:
            sections.append((line.removeprefix("## ").strip(), []))
        elif sections:
            sections[-1][1].append(line)
        elif line.startswith("# ") and not title:
            title = line.removeprefix("# ").strip()
        else:
            lead.append(line)
    return Page(title, _body(lead), tuple(Section(heading, _body(body)) for heading, body in sections))


def _body(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n")


def merged(before: Page | None, title: str, lead: str, parts: Sequence[Part]) -> str:
    """Merges a page: generated parts in their place, hand-written ones unchanged.

    Additional sections keep their place: behind the same heading as before.
    """
    kept = {it.heading: it.body for it in before.sections} if before else {}
    names = {part.heading for part in parts}
    made = [part.heading for part in parts if part.is_made]
    lines = [f"# {title}", "", *([lead, ""] if lead else [])]
    lines += _extras(before, names, "")
    for part in parts:
        body = part.body if part.is_made else kept.get(part.heading, part.body)
        if body:
            lines += [f"## {part.heading}", "", body, ""]
        lines += _extras(before, names, part.heading)
    if made:
        lines.append(f"<!-- `make docs` writes {_listed(made)}; the rest is written here. -->")
    return "\n".join(lines).strip("\n") + "\n"


def _extras(before: Page | None, names: set[str], behind: str) -> list[str]:
    """Returns hand-written sections that followed one of the standard ones, up to the next standard one."""
    lines: list[str] = []
    last = ""
    for it in before.sections if before else ():
        if it.heading in names:
            last = it.heading
        elif last == behind:
            lines += [f"## {it.heading}", "", it.body, ""]
    return lines


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
