"""How help is set: as wide as the terminal, all of it but commands, which somebody copies as they are."""

from __future__ import annotations

import argparse
import re
import shutil
from textwrap import fill

# Lines that are longer than this are hard to read, however wide the terminal is.
_WIDEST = 100
_PARAGRAPHS = re.compile(r"\n{2,}")
# A line of an example or a list: what it is about, and beside it what there is to say.
_BESIDE = re.compile(r"( +\S.*?\S {2,})(\S.*)")


def help_width() -> int:
    """Also where it goes to a pager, which is told how wide it is by COLUMNS."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


class Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=help_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_set(it, width, indent) for it in _PARAGRAPHS.split(text))


def _set(paragraph: str, width: int, indent: str) -> str:
    if "\n " in paragraph:
        return "\n".join(_line(it, width) for it in paragraph.split("\n"))
    return _filled(paragraph, width, indent, indent)


def _line(text: str, width: int) -> str:
    parts = _BESIDE.fullmatch(text)
    if parts is None or len(text) <= width:
        return text
    beginning, said = parts.groups()
    return _filled(said, width, beginning, " " * len(beginning))


def _filled(text: str, width: int, first: str, others: str) -> str:
    return fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
