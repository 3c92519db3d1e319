"""An event whole, on top of everything else: however small the screen is, all of it can be read."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


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
            shown.border_subtitle = "up and down scroll, escape goes back"
            yield Static(self._what, markup=False)

    def on_mount(self) -> None:
        self.query_one("#whole").focus()
