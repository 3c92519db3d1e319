"""The results of a run: a table for people and `build/bench.json` for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .measure import Bar, Quantity, Samples, Unmeasurable, median, p99


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """One object of the JSON file. Without values it was not measured, and `what` says why.

    If only the peer is missing, ours was measured alone.
    """

    name: str
    what: str
    ours: float | None
    peer: float | None
    unit: str
    ratio: float | None
    bar: str | None
    ok: bool | None


class Row(Struct, frozen=True):
    """One quantity: the medians, or the slowest hundredth."""

    median: Entry
    p99: Entry | None = None

    @property
    def entries(self) -> list[Entry]:
        return [self.median, *([self.p99] if self.p99 else [])]


def row(quantity: Quantity, samples: Samples) -> Row:
    rounds = "one round" if samples.rounds == 1 else f"{samples.rounds} rounds"
    middle = _entry(quantity, f"median of {rounds}", samples, median, quantity.bar)
    if samples.rounds == 1:
        return Row(middle)
    percentile = "1st" if quantity.more_is_better else "99th"
    worst = partial(p99, more_is_better=quantity.more_is_better)
    slowest = _entry(quantity, f"{percentile} percentile of {rounds}", samples, worst, quantity.p99_bar)
    return Row(middle, replace(slowest, name=f"{quantity.name}.p99"))


def _entry(
    quantity: Quantity,
    over: str,
    samples: Samples,
    of: Callable[[Sequence[float]], float],
    bar: Bar | None,
) -> Entry:
    ours = of(samples.ours)
    peer = None if samples.peer is None else of(samples.peer)
    return Entry(
        name=quantity.name,
        what=f"{quantity.what}; {over}",
        ours=round(ours, 4),
        peer=None if peer is None else round(peer, 4),
        unit=quantity.unit,
        ratio=None if peer is None else round(ours / peer, 4),
        bar=bar.text(quantity.unit) if bar else None,
        ok=bar.met(ours, peer) if bar else None,
    )


def unmeasured(item: Unmeasurable) -> Row:
    what = f"{item.what}; not measured: {item.reason}"
    bar = item.bar.text(item.unit) if item.bar else None
    return Row(
        Entry(name=item.name, what=what, ours=None, peer=None, unit=item.unit, ratio=None, bar=bar, ok=None)
    )


_HEADINGS = ("name", "ours", "peer", "unit", "ratio", "difference", "bar", "verdict", "p99 ours", "p99 peer")
_TEXT_COLUMNS = (0, 3, 6, 7)


def table(rows: Sequence[Row]) -> str:
    cells = [_HEADINGS, *(line for row in rows for line in _lines(row))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in _TEXT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def explanations(rows: Sequence[Row]) -> str:
    width = max(len(row.median.name) for row in rows) + 2
    return "\n".join(
        textwrap.fill(
            row.median.what, 110, initial_indent=row.median.name.ljust(width), subsequent_indent=" " * width
        )
        for row in rows
    )


def _lines(row: Row) -> Iterator[tuple[str, ...]]:
    """Yields a line for the medians, and one for the slowest hundredth if it has a bar."""
    promised = row.p99 is not None and row.p99.bar is not None
    slowest = (row.p99.ours, row.p99.peer) if row.p99 and not promised else (None, None)
    yield (*_cells(row.median), *map(_number, slowest))
    if promised and row.p99:
        yield (*_cells(row.p99), "-", "-")


def _cells(entry: Entry) -> tuple[str, ...]:
    verdict = {True: "ok", False: "MISSED", None: ""}[entry.ok]
    return (
        entry.name,
        _number(entry.ours),
        _number(entry.peer),
        entry.unit,
        "-" if entry.ratio is None else f"{entry.ratio:.2f}",
        f"{entry.ours - entry.peer:+.3f}" if entry.ours is not None and entry.peer is not None else "-",
        entry.bar or "",
        "not measured" if entry.ours is None else verdict,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def write(path: Path, rows: Sequence[Row], areas: Collection[str]) -> None:
    """Replaces the entries of the areas that ran; those of other areas stay."""
    kept = [entry for entry in _existing(path) if entry.name.partition(".")[0] not in areas]
    fresh = [entry for row in rows for entry in row.entries]
    entries = sorted([*kept, *fresh], key=lambda entry: entry.name.partition(".")[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")


def _existing(path: Path) -> list[Entry]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Entry])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        print(f"{path} is not a list of measurements ({error}) and is replaced")
        return []
