"""The page of an error or a finding."""

from __future__ import annotations

from netloom.api.catalogue import Entry

from .finders import finders, told
from .markdown import paragraphs, sentence, table
from .page import Page, Part, merged

AREAS = {
    "cni": "a CNI error code, from plugins and the `netloom cni` commands",
    "kernel": "an error about kernel objects, from `netloom plan` and `netloom.kernel`",
    "command": "an error of a command",
    "finding": "a finding about the node; each page names the commands that report it",
}


def error_page(entry: Entry, before: Page | None) -> str:
    return merged(
        before,
        f"{entry.code}: {entry.title}",
        "",
        [
            Part("What it is", paragraphs(_what(entry))),
            Part("What it means", paragraphs(entry.meaning)),
            Part("What to do", paragraphs(entry.remedy)),
            Part("Notes", "", is_made=False),
            Part("See also", "[All errors](../errors.md)", is_made=False),
        ],
    )


def _what(entry: Entry) -> str:
    found_by = finders(entry.code)
    if entry.area == "finding":
        return sentence(f"something that {told(found_by)} {'finds' if len(found_by) == 1 else 'find'}")
    also = f"; {told(found_by)} may name it, too" if found_by else ""
    return sentence(f"{AREAS[entry.area]}{also}")


def rows(entries: list[Entry]) -> str:
    return table(
        ["code", "what it is"], [(f"[`{it.code}`](errors/{it.code}.md)", it.title) for it in entries]
    )
