"""What keys do, on top of everything else, until the next key."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static

_KEYS = (
    ("up, down", "choose an event: its details are below"),
    ("enter", "its details whole; escape goes back"),
    ("tab", "go to the next table, which up and down scroll then"),
    ("f", "failures only, and all again"),
    ("p", "pause, and go on"),
    ("?", "these keys"),
    ("q, ctrl+q", "quit"),
)
_COLUMNS = (
    ("/S", "how many a second, over the last ten"),
    ("1 MIN", "how many in the last minute; FAIL: of these"),
    ("P50", "milliseconds that half of them took at most"),
    ("P99", "milliseconds that 99 of 100 took at most"),
)


class Keys(ModalScreen[None]):
    CSS = """
    Keys { align: center middle; }
    #keys { width: auto; height: auto; padding: 1 2; border: round $primary; background: $surface; }
    """

    def compose(self) -> ComposeResult:
        lines = [f"{key:<11}{what}" for key, what in (*_KEYS, ("", ""), *_COLUMNS)]
        shown = Static("\n".join([*lines, "", "any key goes back"]), id="keys", markup=False)
        shown.border_title = "keys and columns"
        yield shown

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self.dismiss()

    def on_click(self) -> None:
        self.dismiss()
