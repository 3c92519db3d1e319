"""Pieces of Markdown that a git host and the site render alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import fill

_WIDTH = 120


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(header), _row(["---"] * len(header)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in map(_escaped, cells))


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")


def code(text: str) -> str:
    return f"`{text}`"


def block(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"


def paragraphs(text: str) -> str:
    """Lines of a docstring as paragraphs of a page."""
    parts = re.split(r"\n\s*\n", text.strip())
    wrapped = [
        fill(" ".join(it.split()), _WIDTH, break_long_words=False, break_on_hyphens=False) for it in parts
    ]
    return "\n\n".join(map(_without_html, wrapped))


def _without_html(text: str) -> str:
    """Escapes HTML outside of backquotes."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def sentence(text: str) -> str:
    """A heading's or a summary's words as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
