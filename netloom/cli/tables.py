"""How a table is laid out, so that it fits and nothing of it is cut.

Columns that have no room go on below, on lines of their own, and a sentence is broken between its words:
names and numbers stay whole, as somebody copies them.
"""

from __future__ import annotations

from collections.abc import Sequence

_GAP, _INDENT = 2, 4
# A last column that is wordy is content with so much of a line; with less, it has lines of its own.
_LEAST = 32


def laid_out(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Columns as wide as they need to be, two spaces apart; without a width, each row is one line.

    >>> laid_out([["ADD", "1 ms", "done"], ["DEL", "12 ms", "-"]])
    ['ADD  1 ms   done', 'DEL  12 ms  -']
    >>> laid_out([["ADD", "no address is left: the pool has 6 held and none resting"]], width=40)
    ['ADD  no address is left: the pool has 6', '     held and none resting']
    """
    if not rows:
        return []
    columns = [*zip(*rows, strict=True)]
    while len(columns) > 1 and not any(columns[-1]):
        columns.pop()
    widths = [max(map(len, column)) for column in columns]
    if width is None or sum(widths) + _GAP * (len(widths) - 1) <= width:
        return [_line(row, widths, 0) for row in zip(*columns, strict=True)]
    words = (word for cell in columns[-1] for word in cell.split(" "))
    least = max(min(widths[-1], _LEAST), max(map(len, words)))
    parts = _parts([*widths[:-1], least], width)
    return [
        line
        for row in zip(*columns, strict=True)
        for number, part in enumerate(parts)
        for line in _folded(row[part], widths[part], _INDENT if number else 0, width)
    ]


def _line(cells: Sequence[str], widths: Sequence[int], indent: int) -> str:
    padded = (f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
    return (" " * indent + (" " * _GAP).join(padded)).rstrip()


def _parts(widths: Sequence[int], width: int) -> list[slice]:
    """Which columns stand on which line, by the room that each needs."""
    parts: list[slice] = []
    start, used = 0, 0
    for number, needed in enumerate(widths):
        if number > start and used + needed > width:
            parts.append(slice(start, number))
            start, used = number, _INDENT
        used += needed + _GAP
    return [*parts, slice(start, len(widths))]


def _folded(cells: Sequence[str], widths: Sequence[int], indent: int, width: int) -> list[str]:
    """The lines that a part of a row takes: more than one, if its last cell does not fit."""
    if not any(cells):
        return [] if indent else [""]
    begin = indent + sum(widths[:-1]) + _GAP * (len(widths) - 1)
    room = max(width - begin, 1)
    if len(cells[-1]) <= room:
        return [_line(cells, widths, indent)]
    from textwrap import wrap

    first, *rest = wrap(cells[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
    return [_line([*cells[:-1], first], widths, indent), *(f"{'':{begin}}{it}" for it in rest)]
