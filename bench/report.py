"""What a run leaves: a table for people and `build/bench.json` for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from .measure import Comparison, Samples, Unmeasurable, median, p99


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """One object of the JSON file. Without values it was not measured, and `what` says why."""

    name: str
    what: str
    ours: float | None
    peer: float | None
    unit: str
    ratio: float | None
    bar: str | None
    ok: bool | None


class Row(Struct, frozen=True):
    """One line of the table: the medians, and the same of the slowest hundredth."""

    median: Entry
    p99: Entry | None = None

    @property
    def entries(self) -> list[Entry]:
        return [self.median, *([self.p99] if self.p99 else [])]


def row(comparison: Comparison, samples: Samples) -> Row:
    ours, peer = median(samples.ours), median(samples.peer)
    bar = comparison.bar
    return Row(
        Entry(
            name=comparison.name,
            what=f"{comparison.what}; median of {comparison.rounds} rounds",
            ours=round(ours, 4),
            peer=round(peer, 4),
            unit=comparison.unit,
            ratio=round(ours / peer, 4),
            bar=bar.text(comparison.unit) if bar else None,
            ok=bar.met(ours, peer) if bar else None,
        ),
        _p99_entry(comparison, samples),
    )


def unmeasured(item: Unmeasurable) -> Row:
    what = f"{item.what}; not measured: {item.reason}"
    bar = item.bar.text(item.unit) if item.bar else None
    return Row(
        Entry(name=item.name, what=what, ours=None, peer=None, unit=item.unit, ratio=None, bar=bar, ok=None)
    )


def _p99_entry(comparison: Comparison, samples: Samples) -> Entry:
    ours, peer = p99(samples.ours), p99(samples.peer)
    return Entry(
        name=f"{comparison.name}.p99",
        what=f"{comparison.what}; 99th percentile of {comparison.rounds} rounds",
        ours=round(ours, 4),
        peer=round(peer, 4),
        unit=comparison.unit,
        ratio=round(ours / peer, 4),
        bar=None,
        ok=None,
    )


_HEADINGS = ("name", "ours", "peer", "unit", "ratio", "difference", "bar", "verdict", "p99 ours", "p99 peer")
_TEXT_COLUMNS = (0, 3, 6, 7)


def table(rows: Sequence[Row]) -> str:
    cells = [_HEADINGS, *map(_cells, rows)]
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


def _cells(row: Row) -> tuple[str, ...]:
    entry = row.median
    if entry.ours is None or entry.peer is None or entry.ratio is None:
        return (entry.name, "-", "-", entry.unit, "-", "-", entry.bar or "", "not measured", "-", "-")
    verdict = {True: "ok", False: "MISSED", None: ""}[entry.ok]
    slowest = (row.p99.ours, row.p99.peer) if row.p99 else (None, None)
    return (
        entry.name,
        f"{entry.ours:.3f}",
        f"{entry.peer:.3f}",
        entry.unit,
        f"{entry.ratio:.2f}",
        f"{entry.ours - entry.peer:+.3f}",
        entry.bar or "",
        verdict,
        *("-" if value is None else f"{value:.3f}" for value in slowest),
    )


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
