"""The live view, drawn with Textual.

Everything is read on a thread beside the one that draws, once a second; a table is only filled anew when
what it shows has changed.
"""

from __future__ import annotations

import time
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Sparkline, Static

from ..event import SHORT, Event, outcome_of, pod_of, reason_of, took
from ..moments import shown
from ..pools import PoolShown, counted, used
from ..views import age
from .meter import Meter
from .reading import Rate, Reading

_EVERY = 1.0
_BAR = 20
_NEARLY = 90.0


class Top(App[None]):
    TITLE = "netloom top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #head { height: auto; padding: 0 1; }
    #numbers { height: 32%; min-height: 7; }
    #numbers > Vertical { border: round $primary; padding: 0 1; }
    #verbs { width: 7fr; } #phases { width: 5fr; } #pools { width: 7fr; overflow-y: auto; }
    #seconds { height: 3; padding: 0 1; }
    #happened { height: 1fr; min-height: 6; border: round $primary; }
    #details { height: 8; border: round $primary; padding: 0 1; }
    DataTable { height: 1fr; overflow-x: hidden; background: $surface; }
    .-short #seconds { display: none; }
    .-short #details { height: 5; }
    .-narrow #phases { display: none; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("p", "pause", "pause"),
        Binding("f", "failures", "failures only"),
        Binding("up,down", "", "choose an event", show=True),
    ]

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self._is_looking = False
        self._is_paused = False
        self._only_failures = False
        self._reading: Reading | None = None
        self._listed: list[Event] = []

    def compose(self) -> ComposeResult:
        yield Static("reading the journal …", id="head", markup=False)
        with Horizontal(id="numbers"):
            with Vertical(id="verbs"):
                yield _table("rates", "VERB", "/S", "1 MIN", "FAILED", "P50", "P99")
            with Vertical(id="phases"):
                yield _table("latencies", "PHASE", "P50", "P99")
            with Vertical(id="pools"):
                yield Static("", id="use", markup=False)
        yield Sparkline([], id="seconds", summary_function=max)
        with Vertical(id="happened"):
            yield _table("events", "WHEN", "VERB", "CONTAINER", "POD", "TOOK", "OUTCOME", cursor=True)
        yield Static("", id="details", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#verbs", Vertical).border_title = "operations"
        self.query_one("#phases", Vertical).border_title = "latencies"
        self.query_one("#pools", Vertical).border_title = "pools"
        self.query_one("#happened", Vertical).border_title = "events"
        self.query_one("#events", DataTable).focus()
        self.set_interval(_EVERY, self.look)
        self.look()

    def look(self) -> None:
        """Unless the last look still goes on, as on a disk that hangs."""
        if not self._is_looking:
            self._is_looking = True
            self._read()

    @work(thread=True)
    def _read(self) -> None:
        try:
            reading = self._meter.read()
            self.call_from_thread(self.take, reading)
        finally:
            self._is_looking = False

    def take(self, reading: Reading) -> None:
        if self._is_paused:
            return
        before, self._reading = self._reading, reading
        self._show_head()
        self._fill("#rates", [_rate(it) for it in reading.rates])
        self._fill("#latencies", _latencies(reading))
        self.query_one("#use", Static).update(Text("\n").join(map(_pool, reading.pools)))
        self.query_one("#seconds", Sparkline).data = reading.seconds
        if before is None or [it.id for it in before.events] != [it.id for it in reading.events]:
            self._list_events()

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._show_head()

    def action_failures(self) -> None:
        self._only_failures = not self._only_failures
        title = "events that failed" if self._only_failures else "events"
        self.query_one("#happened", Vertical).border_title = title
        self._list_events()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if event.data_table.id == "events" and 0 <= event.cursor_row < len(self._listed):
            self.query_one("#details", Static).update(_details(self._listed[event.cursor_row]))

    def _show_head(self) -> None:
        if self._reading is not None:
            self.query_one("#head", Static).update(_head(self._reading, self._is_paused))

    def _list_events(self) -> None:
        """Whoever has chosen an event keeps it; who looks at the latest sees the latest."""
        if self._reading is None:
            return
        table = self.query_one("#events", DataTable)
        chosen = self._listed[table.cursor_row].id if 0 < table.cursor_row < len(self._listed) else None
        self._listed = [it for it in self._reading.events if it.failed or not self._only_failures]
        table.clear()
        for it in self._listed:
            table.add_row(*_event(it))
        row = next((number for number, it in enumerate(self._listed) if it.id == chosen), 0)
        table.move_cursor(row=row)
        if not self._listed:
            self.query_one("#details", Static).update("nothing has failed" if self._only_failures else "")

    def _fill(self, name: str, rows: list[list[Text]]) -> None:
        table = self.query_one(name, DataTable)
        table.clear()
        for row in rows:
            table.add_row(*row)


def _table(name: str, *columns: str, cursor: bool = False) -> DataTable[Text]:
    table: DataTable[Text] = DataTable(
        id=name, cursor_type="row" if cursor else "none", zebra_stripes=cursor, show_cursor=cursor
    )
    table.can_focus = cursor
    for column in columns:
        table.add_column(column)
    return table


def _head(it: Reading, is_paused: bool) -> Text:
    attached = ", ".join(f"{count} {state}" for state, count in it.attachments.items() if count) or "none"
    if it.agent is None:
        first = Text(f"no agent: {it.why}", style="bold red")
    else:
        since = age(time.time() - it.agent.started)
        first = Text(f"netloom {it.agent.version}, process {it.agent.process}, for {since}", style="bold")
        first.append(f"   waiting for the kernel {it.agent.under_way}", style="not bold")
    lines = [
        first,
        Text(
            f"attachments {attached}   DELs queued {it.intents}   repairs in the last minute {it.repairs}   "
            f"{shown(it.time)[11:]}{'   PAUSED' if is_paused else ''}"
        ),
    ]
    troubles = [*(it.agent.troubles if it.agent else ()), *([it.why] if it.agent and it.why else ())]
    return Text("\n").join([*lines, *(Text(trouble, style="bold red") for trouble in troubles)])


def _rate(it: Rate) -> list[Text]:

    failed = Text(str(it.failed), style="bold red" if it.failed else "", justify="right")
    timed = bool(it.p99)
    return [
        Text(it.verb),
        _right(f"{it.per_second:g}"),
        _right(str(it.count)),
        failed,
        _right(took(it.p50) if timed else "-"),
        _right(took(it.p99) if timed else "-"),
    ]


def _latencies(it: Reading) -> list[list[Text]]:
    return [
        [Text(f"{one.verb} {one.phase}"), _right(took(one.p50)), _right(took(one.p99))]
        for one in it.latencies
    ]


def _right(text: str) -> Text:
    return Text(text, justify="right")


def _pool(it: PoolShown) -> Text:
    filled = round(_BAR * it.percent / 100)
    style = "red" if not it.free else "yellow" if it.percent >= _NEARLY else "green"
    line = Text(f"{','.join(it.networks)} {it.cidr}\n")
    line.append("█" * filled, style=style)
    line.append("░" * (_BAR - filled))
    return line.append(f" {used(it)}  {counted(it.held)} held, {it.resting} resting, {counted(it.free)} free")


def _event(it: Event) -> list[Text]:
    style = "red" if it.failed else ""
    return [
        Text(shown(it.started, precise=True)[11:], style=style),
        Text(it.verb, style=style),
        Text("/".join(filter(None, (it.network, it.container_id[:SHORT], it.ifname))) or "-", style=style),
        Text(pod_of(it) or "-", style=style),
        _right(took(it.duration) if it.duration else "-"),
        Text(outcome_of(it), style=style),
    ]


def _details(it: Event) -> Text:
    key = "/".join(filter(None, (it.network, it.container_id, it.ifname)))
    lines = [f"{it.verb} {key}  {shown(it.started, precise=True)}{f'  by {it.caller}' if it.caller else ''}"]
    if it.phases:
        lines.append("  ".join(f"{phase} {took(time)}" for phase, time in it.phases.items()))
    if it.netns:
        lines.append(f"namespace {it.netns}")
    if it.addresses:
        lines.append(f"addresses {', '.join(it.addresses)}")
    if it.details:
        lines.append(it.details)
    if it.failed:
        lines += [f"code {it.code}: {reason_of(it)}", f"`netloom explain {it.code}` tells more"]
    return Text("\n".join(lines))
