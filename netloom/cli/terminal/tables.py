"""Tables that fit the terminal, and JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from ...api.findings import Finding
from ...api.text import encodable, printable_line
from ...cni import AnyResult, Result
from ...cni.wire import encode_in_order, indent, to_builtins
from .output import say, write_bytes


def terminal_width() -> int | None:
    """Returns the width in columns; None without a terminal, where lines may be of any length."""
    if sys.stdout is None:
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):  # ValueError: a stream without a descriptor
        return None


_GAP, _INDENT = 2, 4
# The least width for wrapping a long last column; with less room, it moves to lines of its own.
_LEAST = 32


def laid_out(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Lays out columns, two spaces apart; without a width, each row is one line.

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
    """Distributes the columns over lines of the given width."""
    parts: list[slice] = []
    start, used = 0, 0
    for number, needed in enumerate(widths):
        if number > start and used + needed > width:
            parts.append(slice(start, number))
            start, used = number, _INDENT
        used += needed + _GAP
    return [*parts, slice(start, len(widths))]


def _folded(cells: Sequence[str], widths: Sequence[int], indent: int, width: int) -> list[str]:
    """Returns the lines of a part of a row: more than one if its last cell has to wrap."""
    if not any(cells):
        return [] if indent else [""]
    begin = indent + sum(widths[:-1]) + _GAP * (len(widths) - 1)
    room = max(width - begin, 1)
    if len(cells[-1]) <= room:
        return [_line(cells, widths, indent)]
    from textwrap import wrap

    first, *rest = wrap(cells[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
    return [_line([*cells[:-1], first], widths, indent), *(f"{'':{begin}}{it}" for it in rest)]


def print_json(value: object) -> None:
    """Prints a document, indented like the results of plugins."""
    try:
        data = encode_in_order(value)
    except UnicodeEncodeError:
        data = encode_in_order(encodable(to_builtins(value)))
    write_bytes(indent(data) + b"\n")


def print_result(result: AnyResult, *, as_json: bool, newline: bool = False) -> None:
    """Prints a table on a terminal, else JSON; without a newline, it is byte for byte cnitool's output."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    if on_terminal and not as_json:
        say(result_view(result))
        return
    write_bytes(indent(result.encode()) + (b"\n" if newline or on_terminal else b""))


def result_view(result: AnyResult) -> str:
    modern = result if isinstance(result, Result) else result.as_version("0.4.0")
    assert isinstance(modern, Result)
    rows: list[tuple[str, ...]] = []
    for it in modern.interfaces:
        facts = [f"mac {it.mac}" if it.mac else "", f"mtu {it.mtu}" if it.mtu else ""]
        rows.append(("interface", it.name, " ".join(filter(None, facts)), it.sandbox or "on the host"))
    for ip in modern.ips:
        gateway = f"gateway {ip.gateway}" if ip.gateway else ""
        rows.append(("address", ip.address, gateway, _interface_name(modern, ip.interface)))
    rows += [("route", it.dst, f"via {it.gw}" if it.gw else "", "") for it in modern.routes]
    rows += [("nameserver", server, "", "") for server in modern.dns.nameservers]
    return "\n".join([f"result of CNI {result.cni_version}", *table(rows)])


def _interface_name(result: Result, index: int | None) -> str:
    known = index is not None and 0 <= index < len(result.interfaces)
    return result.interfaces[index].name if known and index is not None else ""


def table(
    rows: Iterable[Sequence[str]], header: Sequence[str] | None = None, *, margin: int = 0
) -> list[str]:
    """Lays out a table that fits the terminal, indented by `margin`."""
    listed = [[printable_line(cell) for cell in row] for row in [*([header] if header else []), *rows]]
    width = terminal_width()
    return [" " * margin + line for line in laid_out(listed, None if width is None else width - margin)]


_AT_MOST = 10


def finding_lines(found: Finding) -> list[str]:
    return [
        printable_line(f"{found.severity}: {found.text}"),
        printable_line(f"  next: {found.next}"),
        f"  more: {found.see}",
    ]


def lines_of_alike(found: Sequence[Finding]) -> list[str]:
    """Returns the lines of findings that share a next step, which is printed once."""
    listed, more = found[:_AT_MOST], len(found) - _AT_MOST
    lines = [printable_line(f"{it.severity}: {it.text}") for it in listed[:-1]]
    of_last = finding_lines(listed[-1])
    and_more = [f"  and {more} more like these (--json lists all)"] if more > 0 else []
    return [*lines, of_last[0], *and_more, *of_last[1:]]
