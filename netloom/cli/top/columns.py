"""The tables of the live view: their columns, as wide as they need to be, and what stands in them.

Times are milliseconds, without their unit: so both percentiles of two tables fit side by side into 80
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from ..event import Event, outcome_of, pod_of, took
from ..moments import shown
from ..short_id import short_id
from .reading import Latency, Rate

# A name has at most this much of the line; what is left over is the outcome's, which has at least so much.
_LONGEST_NAME, _SHORTEST_OUTCOME = 44, 22


class Column(NamedTuple):
    """The space between columns is part of their width."""

    title: str
    width: int
    right: bool = True


RATES = (
    Column("VERB", 8, right=False),
    Column("/S", 6),
    Column("1 MIN", 6),
    Column("FAIL", 5),
    Column("P50", 7),
    Column("P99", 7),
)
LATENCIES = (
    Column("PHASE", 7, right=False),
    Column("ADD P50", 8),
    Column("P99", 7),
    Column("DEL P50", 8),
    Column("P99", 7),
)


class Chosen(DataTable[Text]):
    """One of which a row can be chosen; its footer says how to see that whole."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "details")]


def table(name: str, columns: Iterable[Column], *, cursor: bool = False) -> DataTable[Text]:
    kind: type[DataTable[Text]] = Chosen if cursor else DataTable
    made = kind(
        id=name,
        cell_padding=0,
        cursor_type="row" if cursor else "none",
        zebra_stripes=cursor,
        show_cursor=cursor,
    )
    set_columns(made, columns)
    return made


def set_columns(it: DataTable[Text], columns: Iterable[Column]) -> None:
    it.clear(columns=True)
    for column in columns:
        it.add_column(_text(column.title, right=column.right), width=column.width)


def rate(it: Rate) -> list[Text]:
    is_timed = bool(it.p99)
    return [
        Text(it.verb),
        _right(f"{it.per_second:g}"),
        _right(str(it.count)),
        Text(str(it.failed), style="bold red" if it.failed else "", justify="right"),
        _right(milliseconds(it.p50) if is_timed else "-"),
        _right(milliseconds(it.p99) if is_timed else "-"),
    ]


def latencies(found: Sequence[Latency]) -> list[list[Text]]:
    """A line for each part, of ADD and of DEL. Parts that both have are in the order of ADD's."""
    by_part: dict[str, dict[str, Latency]] = {}
    for it in found:
        by_part.setdefault(it.phase, {})[it.verb] = it
    return [
        [Text(part), *(cell for verb in ("ADD", "DEL") for cell in _percentiles(verbs.get(verb)))]
        for part, verbs in by_part.items()
    ]


def _percentiles(it: Latency | None) -> list[Text]:
    return (
        [Text(""), Text("")] if it is None else [_right(milliseconds(it.p50)), _right(milliseconds(it.p99))]
    )


def milliseconds(time: float) -> str:
    """In six characters, up to a quarter of an hour.

    >>> milliseconds(0.042), milliseconds(2.349), milliseconds(151.2), milliseconds(123456.7)
    ('0.04', '2.3', '151', '123457')
    """
    if time >= 100:
        return f"{time:.0f}"
    return f"{time:.1f}" if time >= 1 else f"{time:.2f}"


class EventColumns(NamedTuple):
    """How an event is shown on a line of a given width. On a short one, a pod stands for its container."""

    container: int
    pod: int
    outcome: int

    @property
    def is_short(self) -> bool:
        return not self.pod

    @property
    def columns(self) -> list[Column]:
        when = 9 if self.is_short else 13
        return [
            Column("WHEN", when, right=False),
            Column("VERB", 8, right=False),
            Column("POD, CONTAINER" if self.is_short else "CONTAINER", self.container, right=False),
            *([] if self.is_short else [Column("POD", self.pod, right=False)]),
            Column("TOOK", 7),
            Column("  OUTCOME", self.outcome, right=False),
        ]

    def cells(self, it: Event) -> list[Text]:
        style = "red" if it.failed else ""
        when = shown(it.started, precise=not self.is_short)[11:]
        names = [_short_name(it)] if self.is_short else [named(it), pod_of(it) or "-"]
        widths = [self.container] if self.is_short else [self.container, self.pod]
        return [
            Text(when, style=style),
            Text(it.verb, style=style),
            *(Text(_cut(name, width - 1), style=style) for name, width in zip(names, widths, strict=True)),
            _right(took(it.duration) if it.duration else "-"),
            Text(f"  {_cut(outcome_of(it), self.outcome - 2)}", style=style),
        ]


def event_columns(width: int, events: Sequence[Event], *, short: bool) -> EventColumns:
    """Names get what they need, as long as there is enough left for the outcome."""
    pods = max((len(pod_of(it)) for it in events), default=0)
    if short:
        names = max((len(_short_name(it)) for it in events), default=0)
        container = min(max(names, 14) + 1, width - 24 - _SHORTEST_OUTCOME)
        return EventColumns(container, 0, width - 24 - container)
    names = max((len(named(it)) for it in events), default=0)
    left = width - 28 - _SHORTEST_OUTCOME
    container = min(max(names, 9), _LONGEST_NAME, left - 4) + 1
    pod = min(max(pods, 3) + 1, left - container)
    return EventColumns(container, pod, width - 28 - container - pod)


def _short_name(it: Event) -> str:
    return pod_of(it) or short_id(it.container_id) or "-"


def named(it: Event) -> str:
    return "/".join(filter(None, (it.network, short_id(it.container_id), it.ifname))) or "-"


def _cut(text: str, width: int) -> str:
    """What is cut is seen to be; the whole of it is among the event's details."""
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _right(text: str) -> Text:
    return _text(text, right=True)


def _text(text: str, *, right: bool) -> Text:
    return Text(text, justify="right" if right else None)
