"""The live view, drawn with Textual, with a screen for its keys and one for the details of an event.

A second thread takes a reading every second; the table of events is only filled again after a change. On a
screen of 80 by 24, panels have no frames and events fewer columns, so that all numbers fit.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Sparkline, Static

from ...ops.explain.events import Event
from .columns import (
    LATENCIES,
    RATES,
    EventColumns,
    details,
    event_columns,
    fitted,
    head,
    latencies,
    pool,
    rate,
    set_columns,
    table,
)
from .reading import Meter, Reading


class Details(Static):
    def __init__(self, name: str) -> None:
        super().__init__("", id=name, markup=False)
        self._whole = Text()

    def fill(self, what: Text) -> None:
        self._whole = what
        room = self.size
        self.update(fitted(what, self.app.console, room.width, room.height) if room else what)

    def on_resize(self, _: events.Resize) -> None:
        self.fill(self._whole)


_KEYS = (
    ("up, down", "select an event, whose details are shown below"),
    ("enter", "show all its details; escape returns"),
    ("tab", "move to the next table; up and down scroll it"),
    ("f", "show failures only, or all events"),
    ("p", "pause or continue"),
    ("?", "show these keys"),
    ("q, ctrl+q", "quit"),
)
_COLUMNS = (
    ("/S", "operations per second, over the last 10 seconds"),
    ("1 MIN", "operations in the last minute; FAIL: failures among them"),
    ("P50", "median duration in milliseconds"),
    ("P99", "99th percentile of the duration in milliseconds"),
)


class Keys(ModalScreen[None]):
    CSS = """
    Keys { align: center middle; }
    #keys { width: auto; height: auto; padding: 1 2; border: round $primary; background: $surface; }
    """

    def compose(self) -> ComposeResult:
        lines = [f"{key:<11}{what}" for key, what in (*_KEYS, ("", ""), *_COLUMNS)]
        shown = Static("\n".join([*lines, "", "any key returns"]), id="keys", markup=False)
        shown.border_title = "keys and columns"
        yield shown

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self.dismiss()

    def on_click(self) -> None:
        self.dismiss()


class Whole(ModalScreen[None]):
    CSS = """
    Whole { align: center middle; }
    #whole { width: 100%; height: auto; max-height: 100%; padding: 0 1; border: round $primary;
             background: $surface; scrollbar-size-vertical: 1; }
    #whole > Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "back", show=False)]

    def __init__(self, what: Text) -> None:
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="whole") as shown:
            shown.border_title = "event"
            shown.border_subtitle = "up and down scroll, escape returns"
            yield Static(self._what, markup=False)

    def on_mount(self) -> None:
        self.query_one("#whole").focus()


_EVERY = 1.0
_PARTS = ("#head", "#rates", "#latencies", "#use", "#seconds", "#events", "#details")
_NARROW, _SHORT = 110, 32
# Width of a scroll bar, and of a panel's frame on a screen that is not short.
_BAR, _FRAME = 1, 4


class Top(App[None]):
    TITLE = "netloom top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #head { height: auto; max-height: 5; padding: 0 1; }
    #numbers { height: 13; }
    #numbers > Vertical { width: 1fr; }
    .panel { border: round $primary; padding: 0 1; }
    .panel:focus-within { border: round $accent; }
    #pools { height: auto; max-height: 6; }
    #seconds { height: 3; padding: 0 1; }
    #happened { height: 1fr; min-height: 6; }
    #chosen { height: 8; }
    DataTable { height: 1fr; overflow-x: hidden; background: $surface; scrollbar-size-vertical: 1; }
    #pools { scrollbar-size-vertical: 1; }
    #details { height: 1fr; }
    .-short #numbers { height: 11; }
    .-short #seconds { display: none; }
    .-short .panel { border: none; border-top: solid $primary; padding: 0; }
    .-short .panel:focus-within { border: none; border-top: solid $accent; }
    .-narrow #numbers > Vertical { border: none; border-top: solid $primary; padding: 0; }
    .-narrow #numbers > Vertical:focus-within { border: none; border-top: solid $accent; }
    .-narrow #numbers > #verbs { width: 40; padding: 0 1 0 0; }
    .-short #pools { border: none; max-height: 2; }
    .-short #happened { min-height: 4; }
    .-short #chosen { border: none; height: 2; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_NARROW, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (_SHORT, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("p", "pause", "pause"),
        Binding("f", "failures", "failures only"),
        Binding("question_mark", "keys", "keys", key_display="?"),
    ]

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self._is_reading = False
        self._is_paused = False
        self._only_failures = False
        self._reading: Reading | None = None
        self._listed: list[Event] = []
        # IDs of all events of the reading from which the listed ones were selected.
        self._known: list[int] | None = None
        self._columns: EventColumns | None = None

    def compose(self) -> ComposeResult:
        yield Static("reading the journal …", id="head", markup=False)
        with Horizontal(id="numbers"):
            with _panel("verbs", "operations (ms)"):
                yield table("rates", RATES)
            with _panel("phases", "latencies by phase (ms)"):
                yield table("latencies", LATENCIES)
        with VerticalScroll(id="pools", classes="panel", can_focus=False) as pools:
            pools.border_title = "pools"
            yield Static("", id="use", markup=False)
        yield Sparkline([], id="seconds", summary_function=max)
        with _panel("happened", "events"):
            yield table("events", (), cursor=True)
        with Vertical(id="chosen", classes="panel"):
            yield Details("details")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#events", DataTable).focus()
        self.set_interval(_EVERY, self.start_reading)
        self.start_reading()

    def on_resize(self, _: events.Resize) -> None:
        """Waits until all widgets have the new size."""
        self.call_after_refresh(self._list_events)

    def start_reading(self) -> None:
        """Takes a reading, unless one is still in progress, as on a disk that hangs."""
        if not self._is_reading:
            self._is_reading = True
            self._read()

    @work(thread=True)
    def _read(self) -> None:
        try:
            reading = self._meter.read()
            self.call_from_thread(self.take, reading)
        finally:
            self._is_reading = False

    def take(self, reading: Reading) -> None:
        if not self._is_paused and self._is_whole:
            self.show(reading)

    @property
    def reading(self) -> Reading | None:
        """The reading on the screen."""
        return self._reading

    def show(self, reading: Reading) -> None:
        self._reading = reading
        self._show_head()
        self._fill("#rates", [rate(it) for it in reading.rates])
        self._fill("#latencies", latencies(reading.latencies))
        self._main.query_one("#use", Static).update(Text("\n").join(map(pool, reading.pools)))
        self._main.query_one("#seconds", Sparkline).data = reading.seconds
        if self._known != [it.id for it in reading.events]:
            self._list_events()

    def action_keys(self) -> None:
        self.push_screen(Keys())

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._show_head()

    def action_failures(self) -> None:
        self._only_failures = not self._only_failures
        title = "failed events" if self._only_failures else "events"
        self._main.query_one("#happened", Vertical).border_title = title
        self._list_events()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        is_listed = event.data_table.id == "events" and 0 <= event.cursor_row < len(self._listed)
        if is_listed and self._is_whole:
            self._show_details(details(self._listed[event.cursor_row]))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "events" and 0 <= event.cursor_row < len(self._listed):
            self.push_screen(Whole(details(self._listed[event.cursor_row])))

    @property
    def _is_whole(self) -> bool:
        """Whether the screen is complete: neither under construction nor being closed."""
        return bool(self.screen_stack) and all(self._main.query(name) for name in _PARTS)

    @property
    def _main(self) -> Screen[object]:
        """The main screen, also while another one covers it."""
        return self.screen_stack[0]

    def _show_head(self) -> None:
        if self._reading is not None:
            self._main.query_one("#head", Static).update(head(self._reading, self._is_paused))

    def _show_details(self, what: Text) -> None:
        self._main.query_one("#details", Details).fill(what)

    def _list_events(self) -> None:
        """Lists the events. A selected event stays selected, but the first row always selects the latest."""
        if self._reading is None or not self._is_whole:
            return
        table = self._main.query_one("#events", DataTable)
        self._known = [it.id for it in self._reading.events]
        chosen = self._listed[table.cursor_row].id if 0 < table.cursor_row < len(self._listed) else None
        self._listed = [it for it in self._reading.events if it.failed or not self._only_failures]
        size = self.size
        width = size.width - _BAR - (_FRAME if size.height >= _SHORT else 0)
        columns = event_columns(width, self._listed, short=size.width < _NARROW)
        if columns != self._columns:
            self._columns = columns
            set_columns(table, columns.columns)
        table.clear()
        for it in self._listed:
            table.add_row(*columns.cells(it))
        row = next((number for number, it in enumerate(self._listed) if it.id == chosen), 0)
        table.move_cursor(row=row)
        if not self._listed:
            self._show_details(Text("no failed events" if self._only_failures else ""))

    def _fill(self, name: str, rows: list[list[Text]]) -> None:
        """Fills a table without changing its scroll position."""
        table = self._main.query_one(name, DataTable)
        seen = table.scroll_y
        table.clear()
        for row in rows:
            table.add_row(*row)
        table.scroll_to(y=seen, animate=False)


def _panel(name: str, title: str) -> Vertical:
    made = Vertical(id=name, classes="panel")
    made.border_title = title
    return made
