"""The details of the event that is chosen, as far as there is room for them."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.widgets import Static

from .texts import fitted


class Details(Static):
    def __init__(self, name: str) -> None:
        super().__init__("", id=name, markup=False)
        self._whole = Text()

    def tell(self, what: Text) -> None:
        self._whole = what
        room = self.size
        self.update(fitted(what, self.app.console, room.width, room.height) if room else what)

    def on_resize(self, _: events.Resize) -> None:
        self.tell(self._whole)
