"""The page of an error or a finding."""

from __future__ import annotations

from netloom.catalogue import Entry

from .markdown import paragraphs, sentence, table
from .page import Page, Part, merged

AREAS = {
    "cni": "an error of CNI, by its number: of plugins, and of the `netloom cni` commands",
    "kernel": "an error of kernel objects: of `netloom plan`, and of `netloom.kernel`",
    "command": "an error of a command",
    "finding": "something that `status`, `doctor`, `check` or `explain` finds",
}


def error_page(entry: Entry, before: Page | None) -> str:
    return merged(
        before,
        f"{entry.code}: {entry.title}",
        "",
        [
            Part("What it is", sentence(AREAS[entry.area])),
            Part("What it means", paragraphs(entry.meaning)),
            Part("What to do", paragraphs(entry.remedy)),
            Part("Notes", "", is_made=False),
            Part("See also", "[All errors](../errors.md)", is_made=False),
        ],
    )


def rows(entries: list[Entry]) -> str:
    return table(
        ["code", "what it is"], [(f"[`{it.code}`](errors/{it.code}.md)", it.title) for it in entries]
    )
