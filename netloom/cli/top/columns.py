"""Tables of the live view with their columns, and lines on the agent, the pools and the selected event.

Times are milliseconds without a unit, so that both percentiles of two tables fit side by side into 80
columns.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.console import Console
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from ...api.text import age, short_id
from ...api.times import shown
from ...ops.explain.events import Event, details_of, outcome_of, pod_of, took
from ...ops.status.document import PoolShown
from ..commands.pools import counted, used
from .reading import Latency, Rate, Reading

# The most room for a name, and the least room for the outcome, which gets the rest of the line.
_LONGEST_NAME, _SHORTEST_OUTCOME = 44, 22


class Column(NamedTuple):
    """A column, whose width includes the space after it."""

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
    """A table whose rows can be selected; the footer shows the key for the details of a row."""

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
    """Returns a line for each phase of ADD and DEL, in the order of ADD's phases."""
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
    """Formats milliseconds in at most six characters, up to a quarter of an hour.

    >>> milliseconds(0.042), milliseconds(2.349), milliseconds(151.2), milliseconds(123456.7)
    ('0.04', '2.3', '151', '123457')
    """
    if time >= 100:
        return f"{time:.0f}"
    return f"{time:.1f}" if time >= 1 else f"{time:.2f}"


class EventColumns(NamedTuple):
    """Column widths for events on a line of a given width. Short lines have no column for pods."""

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
    """Gives names the width that they need, as long as enough is left for the outcome."""
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
    """Shortens text with an ellipsis; the event's details have it in full."""
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _right(text: str) -> Text:
    return _text(text, right=True)


def _text(text: str, *, right: bool) -> Text:
    return Text(text, justify="right" if right else None)


_MORE = "… enter: all"
_BAR = 10
_NEARLY = 90.0


def head(it: Reading, is_paused: bool) -> Text:
    """Returns two lines of usually at most 80 characters, and one for each problem."""
    attached = ", ".join(f"{count} {state}" for state, count in it.attachments.items() if count) or "none"
    if it.agent is None:
        first = Text(f"no agent: {it.why}", style="bold red")
    else:
        since = age(time.time() - it.agent.started)
        first = Text(f"netloom {it.agent.version}, process {it.agent.process}, for {since}", style="bold")
    first.append(f"   {shown(it.time)[11:]}", style="not bold")
    if is_paused:
        first.append("   PAUSED", style="bold reverse")
    waiting = "" if it.agent is None else f"   in progress {it.agent.under_way}"
    second = f"attachments {attached}   DELs queued {it.intents}   repairs {it.repairs}{waiting}"
    problems = [*(it.agent.troubles if it.agent else ()), *([it.why] if it.agent and it.why else ())]
    return Text("\n").join([first, Text(second), *(Text(problem, style="bold red") for problem in problems)])


def pool(it: PoolShown) -> Text:
    filled = round(_BAR * it.percent / 100)
    style = "red" if not it.free else "yellow" if it.percent >= _NEARLY else "green"
    line = Text("█" * filled, style=style)
    line.append("░" * (_BAR - filled), style="none")
    line.append(f" {used(it):>4}  {it.cidr}  ", style="none")
    line.append(f"{counted(it.held)} held, {it.resting} resting, {counted(it.free)} free  ", style="none")
    return line.append(f"({', '.join(it.networks)})", style="dim")


def fitted(what: Text, console: Console, width: int, height: int) -> Text:
    """Cuts text to the given room, and ends it with the key that shows the rest."""
    lines = what.wrap(console, width)
    if len(lines) <= height:
        return what
    last = lines[height - 1]
    last.truncate(max(width - len(_MORE), 0), pad=True)
    return Text("\n").join([*lines[: height - 1], last.append(_MORE, style="bold reverse")])


def details(it: Event) -> Text:
    """Describes an event. A failure's error comes first, since a small screen has only two lines."""
    key = "/".join(filter(None, (it.network, it.container_id, it.ifname)))
    lines = [" ".join(filter(None, (it.verb, key)))]
    if it.failed:
        lines += [f"code {it.code}: {it.error}", f"more: netloom explain {it.code}"]
    if it.details:
        lines.append(details_of(it))
    if it.addresses:
        lines.append(f"addresses {', '.join(it.addresses)}")
    if it.phases:
        lines.append("  ".join(f"{phase} {took(time)}" for phase, time in it.phases.items()))
    where = (f"pod {pod_of(it)}" if pod_of(it) else "", f"namespace {it.netns}" if it.netns else "")
    when = f"{shown(it.started, precise=True)}{f', by {it.caller}' if it.caller else ''}"
    return Text("\n".join([*lines, *filter(None, ["  ".join(filter(None, where))]), when]))
